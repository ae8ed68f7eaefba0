//go:build linux

package link

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"quantix/internal/fleet"
)

// linuxKernel is the kernel of the agent's network namespace. sysfs is the mount point of sysfs.
type linuxKernel struct{ sysfs string }

func newKernel() kernel { return linuxKernel{"/sys"} }

func (l linuxKernel) runStep(s step) error {
	switch s.kind {
	case addBridge:
		return makeBridge(s)
	case addTunnel:
		a := netlink.NewLinkAttrs()
		a.Name, a.MTU = s.device, s.mtu
		return createDevice(&netlink.Vxlan{LinkAttrs: a, VxlanId: s.number, SrcAddr: net.ParseIP(s.to), Learning: true, Port: fleet.VXLANPort}, s.owner)
	}
	if s.kind == addVLAN {
		parent, err := netlink.LinkByName(s.to)
		if err != nil {
			return err
		}
		a := netlink.NewLinkAttrs()
		a.Name, a.ParentIndex = s.device, parent.Attrs().Index
		return createDevice(&netlink.Vlan{LinkAttrs: a, VlanId: s.number}, s.owner)
	}
	x, err := netlink.LinkByName(s.device)
	if s.kind == removeLink && errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil
	}
	if err != nil {
		return err
	}
	switch s.kind {
	case removeLink:
		return netlink.LinkDel(x)
	case joinBridge:
		bridge, err := netlink.LinkByName(s.to)
		if err != nil {
			return err
		}
		return netlink.LinkSetMaster(x, bridge)
	case leaveBridge:
		return netlink.LinkSetNoMaster(x)
	case setMTU:
		return netlink.LinkSetMTU(x, s.number)
	case bringUp:
		return netlink.LinkSetUp(x)
	case disableIPv6:
		err := os.WriteFile("/proc/sys/net/ipv6/conf/"+s.device+"/disable_ipv6", []byte("1"), 0)
		if errors.Is(err, os.ErrNotExist) {
			return nil // a kernel without IPv6
		}
		return err
	case copyIPv6Settings:
		return copyIPv6(s.to, s.device)
	case setSTP:
		return setBridge(x, s.number)
	case addPeer, dropPeer:
		return changeTunnelPeer(x, s)
	}
	return changeAddressOrRoute(x, s)
}

// createDevice creates a device and marks it with its owner. It deletes a device that it cannot mark.
func createDevice(x netlink.Link, owner string) error {
	if err := netlink.LinkAdd(x); err != nil {
		return err
	}
	if err := netlink.LinkSetAlias(x, owner); err != nil {
		return errors.Join(err, netlink.LinkDel(x))
	}
	return nil
}

func makeBridge(s step) error {
	a := netlink.NewLinkAttrs()
	a.Name, a.MTU = s.device, s.mtu
	if s.to != "" {
		mac, err := net.ParseMAC(s.to)
		if err != nil {
			return err
		}
		a.HardwareAddr = mac
	}
	x := &netlink.Bridge{LinkAttrs: a}
	if err := createDevice(x, s.owner); err != nil {
		return err
	}
	return setBridge(x, 0)
}

// setBridge sets a bridge's spanning tree. Without spanning tree the bridge's ports forward at once. With spanning tree
// the kernel enforces a forward delay of at least 2 s.
func setBridge(x netlink.Link, stp int) error {
	req := nl.NewNetlinkRequest(unix.RTM_NEWLINK, unix.NLM_F_ACK)
	msg := nl.NewIfInfomsg(unix.AF_UNSPEC)
	msg.Index = int32(x.Attrs().Index)
	req.AddData(msg)
	info := nl.NewRtAttr(unix.IFLA_LINKINFO, nil)
	info.AddRtAttr(nl.IFLA_INFO_KIND, nl.NonZeroTerminated("bridge"))
	data := info.AddRtAttr(nl.IFLA_INFO_DATA, nil)
	if stp == 0 {
		data.AddRtAttr(nl.IFLA_BR_STP_STATE, nl.Uint32Attr(0))
		data.AddRtAttr(nl.IFLA_BR_FORWARD_DELAY, nl.Uint32Attr(0))
	} else {
		data.AddRtAttr(nl.IFLA_BR_STP_STATE, nl.Uint32Attr(1))
	}
	req.AddData(info)
	_, err := req.Execute(unix.NETLINK_ROUTE, 0)
	return err
}

// copyIPv6 copies the device's router advertisement settings to its bridge, so that the bridge accepts no
// advertisements of guests unless the device would.
func copyIPv6(from, to string) error {
	for _, name := range []string{"accept_ra", "autoconf", "disable_ipv6"} {
		value, err := os.ReadFile(filepath.Join("/proc/sys/net/ipv6/conf", from, name))
		if err == nil {
			err = os.WriteFile(filepath.Join("/proc/sys/net/ipv6/conf", to, name), value, 0)
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) { // a kernel without IPv6
			return err
		}
	}
	return nil
}

// changeTunnelPeer adds or removes a destination to which a tunnel floods packets.
func changeTunnelPeer(x netlink.Link, s step) error {
	n := &netlink.Neigh{
		LinkIndex: x.Attrs().Index, Family: unix.AF_BRIDGE, State: netlink.NUD_PERMANENT | netlink.NUD_NOARP, Flags: netlink.NTF_SELF,
		IP: net.ParseIP(s.to), HardwareAddr: make(net.HardwareAddr, 6),
	}
	if s.kind == addPeer {
		return netlink.NeighAppend(n)
	}
	return netlink.NeighDel(n)
}

// changeAddressOrRoute runs the steps for addresses and routes.
func changeAddressOrRoute(x netlink.Link, s step) error {
	if s.kind == dropRoute || s.kind == giveRoute {
		r, err := s.route.netlinkRoute(x.Attrs().Index)
		if err != nil {
			return err
		}
		if s.kind == giveRoute {
			return netlink.RouteReplace(r)
		}
		if err := netlink.RouteDel(r); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
		return nil
	}
	a, err := netlink.ParseAddr(s.addr.CIDR)
	if err != nil {
		return err
	}
	a.Scope = s.addr.Scope
	if s.kind == dropAddress {
		if err := netlink.AddrDel(x, a); err != nil && !errors.Is(err, syscall.EADDRNOTAVAIL) {
			return err
		}
		return nil
	}
	a.Flags, a.Broadcast = s.addr.Flags, net.ParseIP(s.addr.Broadcast)
	if a.Broadcast == nil {
		a.Broadcast = net.IPv4zero // no broadcast address; with nil the library would choose one
	}
	if a.IP.To4() == nil {
		a.Flags |= unix.IFA_F_NODAD // the host used the address a moment ago, so no duplicate detection is needed
	}
	return netlink.AddrReplace(x, a)
}

func (r Route) netlinkRoute(link int) (*netlink.Route, error) {
	_, to, err := net.ParseCIDR(r.To)
	if err != nil {
		return nil, err
	}
	return &netlink.Route{
		LinkIndex: link, Dst: to, Gw: net.ParseIP(r.Via), Src: net.ParseIP(r.Source), Table: r.Table, Priority: r.Priority,
		Protocol: netlink.RouteProtocol(r.Protocol), Scope: netlink.Scope(r.Scope), Type: r.Type, Flags: r.Flags, MTU: r.MTU,
	}, nil
}

func (l linuxKernel) routeDevices(host string) (out []string) {
	var ips []net.IP
	if ip := net.ParseIP(host); ip != nil {
		ips = []net.IP{ip}
	} else {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		ips, _ = net.DefaultResolver.LookupIP(ctx, "ip", host) // an unresolved host has no known device
	}
	for _, ip := range ips {
		routes, err := netlink.RouteGet(ip)
		if err != nil {
			continue
		}
		for _, r := range routes {
			if x, err := netlink.LinkByIndex(r.LinkIndex); err == nil {
				out = append(out, x.Attrs().Name)
			}
		}
	}
	return out
}

// virtualFunctions counts the device's enabled virtual functions, and those whose driver passes them to guests.
func (l linuxKernel) virtualFunctions(device string) (c fleet.NetworkNICs) {
	at := filepath.Join(l.sysfs, "class/net", device, "device")
	text, err := os.ReadFile(filepath.Join(at, "sriov_numvfs"))
	if err != nil {
		return c
	}
	c.Total, _ = strconv.Atoi(strings.TrimSpace(string(text)))   // 0 if it is no number
	all, _ := filepath.Glob(filepath.Join(at, "virtfn*/driver")) // Glob fails only for a bad pattern
	for _, path := range all {
		if driver, err := os.Readlink(path); err == nil && strings.HasPrefix(filepath.Base(driver), "vfio") {
			c.Used++
		}
	}
	return c
}

func (l linuxKernel) checkOpenVSwitch(ctx context.Context, bridge string) error {
	out, err := exec.CommandContext(ctx, "ovs-vsctl", "--timeout=5", "br-exists", bridge).CombinedOutput()
	exit := (*exec.ExitError)(nil)
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return fleet.Errorf(fleet.NotFound, "This host has no Open vSwitch (ovs-vsctl). Install openvswitch-switch.")
	case errors.As(err, &exit) && exit.ExitCode() == 2:
		return fleet.Errorf(fleet.NotFound, "This host's Open vSwitch has no bridge %s. Create the bridge on the host: ovs-vsctl add-br %s.", bridge, bridge)
	case err != nil:
		return fmt.Errorf("ovs-vsctl br-exists %s: %w: %s", bridge, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// detachProcess makes the command's process outlive the agent's process.
func detachProcess(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// lockDir acquires the lock for changes in a directory. It fails if the lock is not free within the timeout. Closing
// the file releases the lock.
func lockDir(dir string, timeout time.Duration) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for until := time.Now().Add(timeout); ; time.Sleep(20 * time.Millisecond) {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return file, nil
		}
		if time.Now().After(until) {
			file.Close()
			return nil, fmt.Errorf("another change of the network is still running: %w", err)
		}
	}
}
