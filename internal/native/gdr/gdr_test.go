package gdr

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgas-go/pgas/internal/errs"
)

func TestLoadSaysWhatIsMissing(t *testing.T) {
	_, err := loadFrom("libgdrapi-that-is-not-there.so.2")
	var u *errs.UnsupportedError
	require.ErrorAs(t, err, &u)
	require.Contains(t, u.Need, "libgdrapi-that-is-not-there.so.2")
	require.Contains(t, u.Have, "cannot open shared object file")
}

func TestLoadRefusesAnotherLibrary(t *testing.T) {
	_, err := loadFrom("libc.so.6")
	require.ErrorIs(t, err, errs.ErrNotSupported)
	require.ErrorContains(t, err, "symbol gdr_open is missing")
}
