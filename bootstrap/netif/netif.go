// Package netif chooses network interfaces by the rules of PGAS_INTERFACE.
package netif

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// Interface is a network interface that is up, with its addresses.
type Interface struct {
	Name  string
	Addrs []netip.Prefix // address with the length of its subnet, without zone
}

// Loopback says whether all addresses are loopback addresses.
func (i Interface) Loopback() bool {
	return !slices.ContainsFunc(i.Addrs, func(p netip.Prefix) bool { return !p.Addr().IsLoopback() })
}

// List returns the interfaces of this host that are up and have an address, in the kernel's order.
func List() ([]Interface, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list network interfaces: %w", err)
	}
	var out []Interface
	for _, i := range all {
		if i.Flags&net.FlagUp == 0 {
			continue
		}
		addrs, err := i.Addrs()
		if err != nil {
			return nil, fmt.Errorf("list addresses of %s: %w", i.Name, err)
		}
		it := Interface{Name: i.Name}
		for _, a := range addrs {
			p, err := netip.ParsePrefix(a.String())
			if err != nil {
				continue // an address that is not IP
			}
			it.Addrs = append(it.Addrs, p)
		}
		if len(it.Addrs) > 0 {
			out = append(out, it)
		}
	}
	return out, nil
}

// Filter is a parsed PGAS_INTERFACE. The zero Filter accepts everything.
type Filter struct {
	spec    string
	exclude bool
	names   []string
	subnets []netip.Prefix
}

const forms = "exact names (eth0,eth1), all but some (^docker0,veth1), or subnets (10.9.0.0/24)"

// Parse reads a comma-separated list of exact interface names and subnets; a ^ in front of the whole list turns it
// into a list of exceptions. Names are never matched by prefix.
func Parse(spec string) (Filter, error) {
	f := Filter{spec: spec}
	list := spec
	if list == "" {
		return f, nil
	}
	list, f.exclude = strings.CutPrefix(list, "^")
	for item := range strings.SplitSeq(list, ",") {
		switch {
		case item == "":
			return f, fmt.Errorf("interface list %q has an empty item (accepted: %s)", spec, forms)
		case strings.HasPrefix(item, "^"), strings.HasPrefix(item, "="), strings.HasPrefix(item, "!"):
			plain := strings.NewReplacer("^", "", "=", "", "!", "").Replace(list)
			return f, fmt.Errorf("interface list %q: %q in front of %q is not understood; one ^ in front of the whole list "+
				"excludes all of it (write ^%s)", spec, item[:1], item[1:], plain)
		case strings.Contains(item, "/"):
			p, err := netip.ParsePrefix(item)
			if err != nil {
				return f, fmt.Errorf("interface list %q: %q is not a subnet: %w", spec, item, err)
			}
			f.subnets = append(f.subnets, p.Masked())
		default:
			f.names = append(f.names, item)
		}
	}
	return f, nil
}

// Empty says whether the filter accepts everything.
func (f Filter) Empty() bool { return f.spec == "" }

func (f Filter) accepts(name string, addr netip.Addr) bool {
	hit := slices.Contains(f.names, name)
	for _, s := range f.subnets {
		hit = hit || s.Contains(addr.WithZone(""))
	}
	return f.Empty() || hit != f.exclude
}

// Select returns the interfaces and addresses that the filter accepts. The error of an empty selection lists what
// exists.
func (f Filter) Select(all []Interface) ([]Interface, error) {
	var out []Interface
	for _, i := range all {
		kept := Interface{Name: i.Name}
		for _, p := range i.Addrs {
			if f.accepts(i.Name, p.Addr()) {
				kept.Addrs = append(kept.Addrs, p)
			}
		}
		if len(kept.Addrs) > 0 {
			out = append(out, kept)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no network interface matches %q; this host has: %s", f.spec, Describe(all))
	}
	return out, nil
}

// Describe prints interfaces with their addresses: "lo 127.0.0.1/8 ::1/128; eth0 10.0.0.2/24".
func Describe(all []Interface) string {
	if len(all) == 0 {
		return "none that is up and has an address"
	}
	parts := make([]string, len(all))
	for i, it := range all {
		parts[i] = it.Name
		for _, p := range it.Addrs {
			parts[i] += " " + p.String()
		}
	}
	return strings.Join(parts, "; ")
}

// SourceFor picks the address among chosen from which to reach target: one whose subnet contains it, else the first of
// the same family and the same side of loopback. The error says why none fits.
func SourceFor(target netip.Addr, chosen []Interface) (netip.Addr, error) {
	var fallback netip.Addr
	for _, i := range chosen {
		for _, p := range i.Addrs {
			a := p.Addr()
			if a.Is4() != target.Is4() || a.IsLoopback() != target.IsLoopback() {
				continue
			}
			linkLocal := a.Is6() && a.IsLinkLocalUnicast()
			if linkLocal && target.Zone() != i.Name {
				continue
			}
			if p.Masked().Contains(target.WithZone("")) {
				return a.WithZone(target.Zone()), nil
			}
			if !fallback.IsValid() && !linkLocal {
				fallback = a
			}
		}
	}
	if !fallback.IsValid() {
		return fallback, fmt.Errorf("no chosen interface can reach %v; chosen: %s (change PGAS_INTERFACE)", target, Describe(chosen))
	}
	return fallback, nil
}
