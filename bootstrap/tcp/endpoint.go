package tcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/pgas-go/pgas/bootstrap"
	"github.com/pgas-go/pgas/bootstrap/netif"
	"github.com/pgas-go/pgas/internal/errs"
)

// endpoint is a parsed root address: TCP, or an abstract Unix socket ("unix:@name").
type endpoint struct {
	unixName string // with the leading @; empty for TCP
	host     string
	port     uint16
	filter   netif.Filter
	alive    net.KeepAliveConfig
}

func parseRoot(o *Options) (*endpoint, error) {
	root := o.Root
	if name, ok := strings.CutPrefix(root, "unix:"); ok {
		if len(name) < 2 || len(name) > 100 || name[0] != '@' {
			return nil, errs.Arg("start", "root", strconv.Quote(root), "unix:@name with a name of 1 to 99 bytes")
		}
		return &endpoint{unixName: name}, nil
	}
	host, port, err := net.SplitHostPort(root)
	n, portErr := strconv.ParseUint(port, 10, 16)
	if err != nil || portErr != nil || host == "" || n == 0 {
		return nil, errs.Arg("start", "root", strconv.Quote(root), "host:port, [IPv6]:port or unix:@name")
	}
	filter, err := netif.Parse(o.Interface)
	if err != nil {
		return nil, err
	}
	return &endpoint{host: host, port: uint16(n), filter: filter, alive: o.keepAlive}, nil
}

func (e *endpoint) String() string {
	if e.unixName != "" {
		return "unix:" + e.unixName
	}
	return net.JoinHostPort(e.host, strconv.Itoa(int(e.port)))
}

// listen opens the root's socket. The own host name is never looked up: a root given by name is listened for on the
// chosen interface, or on all of them. The job key keeps strangers out.
func (e *endpoint) listen(ctx context.Context) (net.Listener, error) {
	lc := net.ListenConfig{KeepAliveConfig: e.alive}
	if e.unixName != "" {
		return lc.Listen(ctx, "unix", e.unixName)
	}
	addr, err := e.listenAddr()
	if err != nil {
		return nil, err
	}
	return lc.Listen(ctx, "tcp", addr)
}

func (e *endpoint) listenAddr() (string, error) {
	port := strconv.Itoa(int(e.port))
	all, err := netif.List()
	if err != nil {
		return "", err
	}
	chosen, err := e.filter.Select(all)
	if err != nil {
		return "", err
	}
	if a, err := netip.ParseAddr(e.localName(all)); err == nil {
		if isLocal(a, chosen) {
			return net.JoinHostPort(a.String(), port), nil
		}
		if a.IsLoopback() && e.filter.Empty() {
			return net.JoinHostPort(a.String(), port), nil // all of 127.0.0.0/8 is local
		}
		if isLocal(a, all) {
			return "", fmt.Errorf("root %v is this host's, but not on a chosen interface; chosen: %s (change PGAS_ROOT or PGAS_INTERFACE)",
				e, netif.Describe(chosen))
		}
	}
	if e.filter.Empty() {
		return ":" + port, nil
	}
	return net.JoinHostPort(chosen[0].Addrs[0].Addr().String(), port), nil
}

func isLocal(a netip.Addr, interfaces []netif.Interface) bool {
	for _, i := range interfaces {
		if slices.ContainsFunc(i.Addrs, func(p netip.Prefix) bool { return p.Addr() == a.WithZone("") }) {
			return true
		}
	}
	return false
}

// localName replaces "localhost" by the loopback address that this host has, so that no resolver is asked and an
// IPv6-only host works.
func (e *endpoint) localName(all []netif.Interface) string {
	if e.host != "localhost" {
		return e.host
	}
	for _, i := range all {
		for _, p := range i.Addrs {
			if p.Addr() == netip.AddrFrom4([4]byte{127, 0, 0, 1}) {
				return "127.0.0.1"
			}
		}
	}
	return "::1"
}

// dial makes one attempt to connect to the root.
func (e *endpoint) dial(ctx context.Context) (net.Conn, error) {
	d := net.Dialer{KeepAliveConfig: e.alive}
	if e.unixName != "" {
		return d.DialContext(ctx, "unix", e.unixName)
	}
	all, err := netif.List()
	if err != nil {
		return nil, err
	}
	chosen, err := e.filter.Select(all)
	if err != nil {
		return nil, permanent{err}
	}
	targets, err := net.DefaultResolver.LookupNetIP(ctx, "ip", e.localName(all))
	if err != nil {
		return nil, err
	}
	var failures []error
	for _, target := range targets {
		target = target.Unmap()
		if !e.filter.Empty() {
			source, err := netif.SourceFor(target, chosen)
			if err != nil {
				failures = append(failures, permanent{err})
				continue
			}
			d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(source, 0))
		}
		conn, err := d.DialContext(ctx, "tcp", netip.AddrPortFrom(target, e.port).String())
		if err == nil {
			return conn, nil
		}
		failures = append(failures, err)
	}
	for _, err := range failures {
		if !errors.As(err, new(permanent)) {
			return nil, err
		}
	}
	return nil, errors.Join(failures...)
}

// permanent marks errors that waiting will not cure.
type permanent struct{ err error }

func (p permanent) Error() string { return p.err.Error() }
func (p permanent) Unwrap() error { return p.err }

func isPermanent(err error) bool { return errors.As(err, new(permanent)) }

func addrInUse(err error) bool { return errors.Is(err, syscall.EADDRINUSE) }

// sameUser refuses Unix socket peers of other users; root may always connect. TCP peers pass: the key decides.
func sameUser(conn net.Conn) error {
	uc, ok := conn.(*net.UnixConn)
	if !ok {
		return nil
	}
	return bootstrap.SameUser(uc)
}

// hostOf names the other side by address; empty on a Unix socket, where it is this host.
func hostOf(conn net.Conn) string {
	if a, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		return a.AddrPort().Addr().Unmap().String()
	}
	return ""
}
