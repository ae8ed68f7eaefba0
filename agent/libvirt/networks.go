package libvirt

import (
	"cmp"
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// networks lists libvirt's networks and the host's bridges that belong to none of them, by name.
func (b *Backend) networks(ctx context.Context, c *conn) ([]wire.NetworkReport, error) {
	refs, err := call(ctx, c, func(l *golibvirt.Libvirt) ([]golibvirt.Network, error) {
		all, _, err := l.ConnectListAllNetworks(1, 0)
		return all, err
	})
	if err != nil {
		return nil, err
	}
	out, taken := []wire.NetworkReport{}, map[string]bool{}
	for _, ref := range refs {
		st, err := call(ctx, c, func(l *golibvirt.Libvirt) (fleet.NetworkStatus, error) { return networkStatus(l, ref) })
		switch {
		case is(err, golibvirt.ErrNoNetwork):
			continue
		case answered(err):
			st.Error = err.Error()
		case err != nil:
			return nil, err
		}
		taken[st.Bridge] = true
		out = append(out, wire.NetworkReport{Name: ref.Name, Kind: fleet.NetworkLibvirt, Status: st})
	}
	for _, name := range bridges() {
		if !taken[name] {
			out = append(out, wire.NetworkReport{Name: name, Kind: fleet.NetworkBridge, Status: bridgeStatus(name)})
		}
	}
	slices.SortFunc(out, func(a, b wire.NetworkReport) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind))
	})
	return out, nil
}

func networkStatus(l *golibvirt.Libvirt, ref golibvirt.Network) (fleet.NetworkStatus, error) {
	var st fleet.NetworkStatus
	text, err := l.NetworkGetXMLDesc(ref, 0)
	if err != nil {
		return st, err
	}
	var x libvirtxml.Network
	if err := x.Unmarshal(text); err != nil {
		return st, err
	}
	if x.Bridge != nil {
		st.Bridge = x.Bridge.Name
	}
	if x.Forward != nil {
		st.Forward = x.Forward.Mode
	}
	for _, ip := range x.IPs {
		if s := subnet(ip); s != "" {
			st.Subnets = append(st.Subnets, s)
		}
	}
	active, err := l.NetworkIsActive(ref)
	if err != nil {
		return st, err
	}
	autostart, err := l.NetworkGetAutostart(ref)
	st.Active, st.Autostart = active != 0, autostart != 0
	return st, err
}

// subnet is "192.168.122.0/24"; empty where the network gives no prefix.
func subnet(x libvirtxml.NetworkIP) string {
	ip := net.ParseIP(x.Address)
	bits := 128
	if v4 := ip.To4(); v4 != nil {
		ip, bits = v4, 32
	}
	mask := net.CIDRMask(int(x.Prefix), bits)
	if m := net.ParseIP(x.Netmask).To4(); m != nil {
		mask = net.IPMask(m)
	}
	if ip == nil || x.Prefix == 0 && x.Netmask == "" {
		return ""
	}
	ones, _ := mask.Size()
	return ip.Mask(mask).String() + "/" + strconv.Itoa(ones)
}

// bridges are the bridge devices that this host has now.
func bridges() []string {
	dirs, _ := filepath.Glob("/sys/class/net/*/bridge") // fails only for a bad pattern
	names := make([]string, len(dirs))
	for i, d := range dirs {
		names[i] = filepath.Base(filepath.Dir(d))
	}
	return names
}

func bridgeStatus(name string) fleet.NetworkStatus {
	st := fleet.NetworkStatus{Bridge: name}
	flags, err := os.ReadFile(filepath.Join("/sys/class/net", name, "flags"))
	if err != nil {
		st.Error = err.Error()
		return st
	}
	const up = 1
	bits, err := strconv.ParseUint(strings.TrimSpace(string(flags)), 0, 32) // "0x1003\n"
	if err != nil {
		st.Error = "The kernel tells no flags of the bridge: " + err.Error()
		return st
	}
	st.Active = bits&up != 0
	dev, err := net.InterfaceByName(name)
	if err != nil {
		return st // not of this network namespace
	}
	addrs, err := dev.Addrs()
	if err != nil {
		st.Error = err.Error()
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
			st.Subnets = append(st.Subnets, (&net.IPNet{IP: n.IP.Mask(n.Mask), Mask: n.Mask}).String())
		}
	}
	slices.Sort(st.Subnets)
	return st
}
