package cuda

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const ptxasSample = `ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'put' for 'sm_90'
ptxas info    : Function properties for put
    16 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads
ptxas info    : Function properties for _Z6helperv
    8 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 32 registers, used 0 barriers, 360 bytes cmem[0]
`

const sassSample = `	code for sm_90
		Function : put
	.headerflags	@"EF_CUDA_SM90"
        /*0000*/                   LDC R1, c[0x0][0x28] ;             /* 0x00000a00ff017b82 */
                                                                      /* 0x000fe20000000800 */
        /*0010*/              @!P0 MEMBAR.SC.SYS ;                    /* 0x0000000000057919 */
        /*0020*/             @UPT0 ATOMG.E.CAS.64 PT, R2, [R2] ;      /* 0x0000000000057919 */
        /*0030*/                   EXIT ;                             /* 0x000000000000794d */
        /*0040*/                   NOP ;                              /* 0x0000000000007918 */
`

func sampleCosts() costs {
	c := costs{}
	c.readPtxas(ptxasSample)
	c.readSASS(sassSample, "sm_90")
	return c
}

func TestReadCompilerOutput(t *testing.T) {
	require.Equal(t, costs{"put sm_90": {registers: 32, stack: 24, spills: 12, instructions: 4, fences: 1, atomics: 1}},
		sampleCosts())
}

func TestReportRoundTrip(t *testing.T) {
	c := sampleCosts()
	c["put sm_100"] = cost{1, 2, 3, 4, 5, 6}
	text := c.format("13.5.37")
	back, version, err := parseReport(text)
	require.NoError(t, err)
	require.Equal(t, "13.5.37", version)
	require.Equal(t, c, back)

	_, _, err = parseReport("# nvcc 1.2.3\nput sm_90 1 2\n")
	require.ErrorContains(t, err, "want 8 columns, have 4")
	_, _, err = parseReport("put sm_90 1 2 3 4 5 6\n")
	require.ErrorContains(t, err, "no line with the version")
}

// TestGrowthIsSeen: one more of anything is reported, one less is not.
func TestGrowthIsSeen(t *testing.T) {
	base := cost{10, 20, 30, 40, 50, 60}
	require.Empty(t, growth(costs{"k sm_80": base}, costs{"k sm_80": base}))
	require.Empty(t, growth(costs{"k sm_80": base}, costs{"k sm_80": {9, 19, 29, 39, 49, 59}}))
	worse := []cost{{11, 20, 30, 40, 50, 60}, {10, 21, 30, 40, 50, 60}, {10, 20, 31, 40, 50, 60},
		{10, 20, 30, 41, 50, 60}, {10, 20, 30, 40, 51, 60}, {10, 20, 30, 40, 50, 61}}
	for i, c := range worse {
		bad := growth(costs{"k sm_80": base}, costs{"k sm_80": c})
		require.Len(t, bad, 1)
		require.Contains(t, bad[0], fieldNames[i])
	}
	require.Equal(t, []string{"new sm_80: not in the report", "old sm_80: in the report, but no such kernel"},
		growth(costs{"old sm_80": base}, costs{"new sm_80": base}))
}
