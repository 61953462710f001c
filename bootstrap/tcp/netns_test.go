package tcp

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgas-go/pgas/internal/errs"
)

// inNamespaces runs a shell script in fresh user, network and host-name namespaces. $PE is a command that is one PE;
// its place comes from the PGAS_TEST variables. The host's own name resolves nowhere, and no name server answers.
func inNamespaces(t *testing.T, script string) string {
	t.Helper()
	if out, err := exec.Command("unshare", "-rnu", "ip", "link").CombinedOutput(); err != nil {
		t.Skip((&errs.UnsupportedError{Feature: "test in network namespaces", Need: "unshare -rnu and ip",
			Have: strings.TrimSpace(string(out)) + " " + err.Error()}).Error())
	}
	cmd := exec.Command("unshare", "-rnu", "--kill-child", "sh", "-ec", "hostname no-such-host; ip link set lo up\n"+script)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "PE="+os.Args[0], childMarker+"=wait", "PGAS_TEST_SIZE=2", "PGAS_TEST_STEP=20s")
	began := time.Now()
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Less(t, time.Since(began), 30*time.Second)
	return string(out)
}

// A host with nothing but ::1 starts a job at localhost.
func TestOnlyIPv6LoopbackAndNoNames(t *testing.T) {
	began := time.Now()
	out := inNamespaces(t, `ip addr del 127.0.0.1/8 dev lo
		export PGAS_TEST_ROOT=localhost:47000
		PGAS_TEST_RANK=0 $PE & PGAS_TEST_RANK=1 $PE; wait $!`)
	require.Equal(t, 2, strings.Count(out, "closed"), out)
	require.Less(t, time.Since(began), 5*time.Second)
}

// twoHosts makes two hosts with interfaces of different names, and one more interface on the first that leads nowhere
// and sorts first. $OTHER runs a command on the second host.
const twoHosts = `
	unshare -n sleep 60 & S=$!
	while [ "$(readlink /proc/$S/ns/net)" = "$(readlink /proc/self/ns/net)" ]; do sleep 0.01; done
	OTHER="nsenter -t $S -n"
	ip link add aaa0 type veth peer name aaa1
	ip addr add 10.77.0.1/24 dev aaa0; ip link set aaa0 up
	ip link add eno1 type veth peer name eth0 netns $S
	ip addr add 10.9.0.1/24 dev eno1; ip link set eno1 up
	$OTHER ip link set lo up; $OTHER ip addr add 10.9.0.2/24 dev eth0; $OTHER ip link set eth0 up
	export PGAS_TEST_ROOT=10.9.0.1:47000
`

func TestTwoHosts(t *testing.T) {
	out := inNamespaces(t, twoHosts+`
		for i in "" eno1,eth0 10.9.0.0/24 ^lo,aaa0; do
			export PGAS_TEST_INTERFACE=$i
			PGAS_TEST_RANK=0 $PE & P=$!
			PGAS_TEST_RANK=1 $OTHER $PE
			wait $P
		done
		kill $S`)
	require.Equal(t, 8, strings.Count(out, "closed"), out)
}

// PEs of different hosts do not pass descriptors to each other.
func TestHostsAreToldApart(t *testing.T) {
	out := inNamespaces(t, twoHosts+`
		export PGAS_TEST_CHILD=locate PGAS_TEST_SIZE=3
		PGAS_TEST_RANK=0 $PE & P=$!
		PGAS_TEST_RANK=1 $OTHER $PE & Q=$!
		PGAS_TEST_RANK=2 $PE
		wait $P; wait $Q
		kill $S`)
	require.Contains(t, out, "PE 0 hosts [0 1 0] local [0 2] place 0 descriptors [0 0 2]\n")
	require.Contains(t, out, "PE 1 hosts [0 1 0] local [1] place 0 descriptors [0 0 0]\n")
	require.Contains(t, out, "PE 2 hosts [0 1 0] local [0 2] place 1 descriptors [2 0 0]\n")
}

func TestLoopbackCannotReachAnotherHost(t *testing.T) {
	out := inNamespaces(t, twoHosts+`
		export PGAS_TEST_INTERFACE=lo
		PGAS_TEST_RANK=0 $PE || true
		PGAS_TEST_RANK=1 $OTHER $PE || true
		kill $S`)
	require.Contains(t, out, "root 10.9.0.1:47000 is this host's, but not on a chosen interface; chosen: lo")
	require.Contains(t, out, "no chosen interface can reach 10.9.0.1; chosen: lo")
}

// A host that vanishes without a word (half-open connections) is found by keepalive, on both sides.
func TestVanishedHost(t *testing.T) {
	out := inNamespaces(t, twoHosts+`
		export PGAS_TEST_KEEPALIVE=1 PGAS_TEST_CHILD=watch
		(PGAS_TEST_RANK=0 $PE > pe0 || true) & P=$!
		(PGAS_TEST_RANK=1 $OTHER $PE > pe1 || true) & Q=$!
		until grep -q joined pe0 && grep -q joined pe1; do sleep 0.05; done 2> /dev/null
		ip link set eno1 down
		wait $P $Q
		cat pe0 pe1; rm pe0 pe1; kill $S`)
	require.Regexp(t, `peer lost: PE 1 on 10\.9\.0\.2: .*(timed out|no route).*last seen \d`, out)
	require.Regexp(t, `peer lost: PE 0 on 10\.9\.0\.1: .*(timed out|no route)`, out)
}
