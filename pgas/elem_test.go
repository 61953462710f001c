package pgas

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheckElem(t *testing.T) {
	type point struct {
		X, Y float32
		Tag  [4]uint16
	}
	type nested struct {
		P    point
		Next *nested
	}
	type bits uint16
	require.NoError(t, checkElem[uint64]("alloc"))
	require.NoError(t, checkElem[bool]("alloc"))
	require.NoError(t, checkElem[bits]("alloc"))
	require.NoError(t, checkElem[point]("alloc"))
	require.NoError(t, checkElem[[3]complex128]("alloc"))

	for _, c := range []struct {
		err  error
		want string
	}{
		{checkElem[*int32]("alloc"), "it is a ptr (*int32), which holds an address of one process"},
		{checkElem[string]("alloc"), "it is a string (string)"},
		{checkElem[[]byte]("alloc"), "it is a slice ([]uint8)"},
		{checkElem[map[int]int]("alloc"), "it is a map"},
		{checkElem[func()]("alloc"), "it is a func"},
		{checkElem[any]("alloc"), "it is a interface"},
		{checkElem[int]("alloc"), "it is int, whose size depends on the machine"},
		{checkElem[[2]uintptr]("alloc"), "[...] is uintptr, whose size depends on the machine"},
		{checkElem[nested]("alloc"), ".Next is a ptr (*pgas.nested)"},
		{checkElem[struct{}]("alloc"), "it has no bytes"},
		{checkElem[[0]uint64]("alloc"), "it has no bytes"},
	} {
		var typed *TypeError
		require.ErrorAs(t, c.err, &typed)
		require.ErrorIs(t, c.err, ErrInvalid)
		require.ErrorContains(t, c.err, c.want)
	}
}
