package link

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"quantix/internal/fleet"
)

func (l linuxKernel) read(n fleet.Network, routes bool) (p hostState, err error) {
	links, err := netlink.LinkList()
	if err != nil {
		return p, fmt.Errorf("list the host's network devices: %w", err)
	}
	names := map[int]string{}
	for _, x := range links {
		names[x.Attrs().Index] = x.Attrs().Name
	}
	bridge := n.Spec.Bridge
	if n.Spec.Mode.Info().CreatesDevices {
		bridge = n.BridgeDevice()
	}
	for _, x := range links {
		a := x.Attrs()
		if bridge != "" && names[a.MasterIndex] == bridge {
			if p.ports = append(p.ports, a.Name); !isGuestPort(a.Name, x.Type()) {
				p.nonGuestPorts = append(p.nonGuestPorts, a.Name)
			}
		}
		if n.Spec.Device != "" && x.Type() == "macvtap" && names[a.ParentIndex] == n.Spec.Device {
			p.guestTaps++
		}
		at := (**device)(nil)
		switch {
		case bridge != "" && a.Name == bridge:
			at = &p.bridge
		case n.Spec.Mode.Info().CreatesDevices && a.Name == n.TunnelDevice():
			at = &p.tunnel
		case n.Spec.Mode.Info().CreatesDevices && a.Name == n.VLANDevice():
			at = &p.vlan
		case n.Spec.Device != "" && a.Name == n.Spec.Device:
			at = &p.uplink
		}
		if at != nil {
			if *at, err = readDevice(x, names); err == nil && routes {
				err = readRoutes(x, *at)
			}
			if err != nil {
				return p, err
			}
		}
	}
	if n.Spec.Mode == fleet.NetworkVXLAN {
		p.localAddresses, err = localAddresses(links)
	}
	return p, err
}

// localAddresses returns the host's own addresses.
func localAddresses(links []netlink.Link) (out []localAddress, err error) {
	all, err := netlink.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return nil, fmt.Errorf("list the host's addresses: %w", err)
	}
	for _, a := range all {
		ip, ok := netip.AddrFromSlice(a.IP)
		if !ok || a.Scope != int(netlink.SCOPE_UNIVERSE) || ip.IsLoopback() {
			continue
		}
		for _, x := range links {
			if x.Attrs().Index == a.LinkIndex && x.Attrs().Flags&net.FlagUp != 0 {
				out = append(out, localAddress{ip.Unmap(), x.Attrs().Name, x.Attrs().MTU})
			}
		}
	}
	return out, nil
}

func readDevice(x netlink.Link, names map[int]string) (*device, error) {
	a := x.Attrs()
	d := &device{
		Name: a.Name, Kind: x.Type(), Owner: a.Alias, Master: names[a.MasterIndex], MAC: a.HardwareAddr.String(), MTU: a.MTU,
		Up: a.Flags&net.FlagUp != 0, Parent: names[a.ParentIndex],
	}
	if a.Flags&net.FlagLoopback != 0 {
		d.Kind = "loopback"
	}
	switch x := x.(type) {
	case *netlink.Vxlan:
		d.VNI, d.Parent = x.VxlanId, ""
		if ip, ok := netip.AddrFromSlice(x.SrcAddr); ok {
			d.Local = ip.Unmap().String()
		}
		peers, err := netlink.NeighList(a.Index, unix.AF_BRIDGE)
		if err != nil {
			return nil, fmt.Errorf("list the peers of %s: %w", a.Name, err)
		}
		for _, p := range peers {
			if ip, ok := netip.AddrFromSlice(p.IP); ok && isZeroMAC(p.HardwareAddr) {
				d.Peers = append(d.Peers, ip.Unmap().String())
			}
		}
	case *netlink.Vlan:
		d.VLAN = x.VlanId
	case *netlink.Bridge:
		// netlink does not report the spanning tree's state, so it is read from sysfs
		state, _ := os.ReadFile("/sys/class/net/" + a.Name + "/bridge/stp_state")
		d.STP = strings.TrimSpace(string(state)) != "0" && len(state) > 0
	}
	addrs, err := netlink.AddrList(x, netlink.FAMILY_ALL)
	if err != nil {
		return nil, fmt.Errorf("list the addresses of %s: %w", a.Name, err)
	}
	for _, addr := range addrs {
		dynamic := addr.Flags&unix.IFA_F_PERMANENT == 0
		d.AutoIPv6 = d.AutoIPv6 || dynamic && addr.IP.To4() == nil && addr.Scope != int(netlink.SCOPE_LINK)
		if addr.Scope == int(netlink.SCOPE_LINK) || dynamic && addr.IP.To4() == nil {
			continue // the kernel adds such addresses to the new device
		}
		own := IPAddress{CIDR: addr.IPNet.String(), Scope: addr.Scope, Flags: addr.Flags & unix.IFA_F_NOPREFIXROUTE, Dynamic: dynamic}
		if addr.Broadcast != nil {
			own.Broadcast = addr.Broadcast.String()
		}
		d.Addresses = append(d.Addresses, own)
	}
	return d, nil
}

func isZeroMAC(mac net.HardwareAddr) bool {
	for _, b := range mac {
		if b != 0 {
			return false
		}
	}
	return len(mac) == 6
}

func readRoutes(x netlink.Link, d *device) error {
	all, err := netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE)
	if err != nil {
		return fmt.Errorf("list the host's routes: %w", err)
	}
	for _, r := range all {
		for _, hop := range r.MultiPath {
			d.InMultipath = d.InMultipath || hop.LinkIndex == x.Attrs().Index
		}
		if r.LinkIndex != x.Attrs().Index || r.Protocol == unix.RTPROT_KERNEL || r.Protocol == unix.RTPROT_RA || r.Table == unix.RT_TABLE_LOCAL {
			continue
		}
		if r.Dst != nil && r.Dst.IP.IsLinkLocalUnicast() {
			continue
		}
		to := "0.0.0.0/0"
		if r.Family == netlink.FAMILY_V6 {
			to = "::/0"
		}
		if r.Dst != nil {
			to = r.Dst.String()
		}
		if r.Via != nil || r.Encap != nil || r.MPLSDst != nil || r.NewDst != nil || r.Tos != 0 {
			d.UnsupportedRoute = to
		}
		out := Route{To: to, Table: r.Table, Priority: r.Priority, Protocol: int(r.Protocol), Scope: int(r.Scope), Type: r.Type, Flags: r.Flags & unix.RTNH_F_ONLINK, MTU: r.MTU}
		if r.Gw != nil {
			out.Via = r.Gw.String()
		}
		if r.Src != nil {
			out.Source = r.Src.String()
		}
		d.Routes = append(d.Routes, out)
	}
	return nil
}
