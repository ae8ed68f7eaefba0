//go:build linux

package link

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"quantix/internal/fleet"
)

// NetworkGaps lists the network modes that this host does not support. It tries the kernel's features in a temporary network
// namespace.
func NetworkGaps(ctx context.Context) []fleet.NetworkGap { return linuxKernel{"/sys"}.networkGaps(ctx) }

func (l linuxKernel) networkGaps(ctx context.Context) (out []fleet.NetworkGap) {
	gap := func(mode fleet.NetworkMode, format string, args ...any) {
		out = append(out, fleet.NetworkGap{Mode: mode, Why: fmt.Sprintf(format, args...)})
	}
	tried := tryDeviceKinds(ctx)
	if err := tried["bridge"]; err != nil {
		gap(fleet.NetworkUplink, "The kernel does not support bridges: %v.", err)
	}
	if err := errors.Join(tried["bridge"], tried["vxlan"]); err != nil {
		gap(fleet.NetworkVXLAN, "The kernel does not support VXLAN tunnels: %v.", err)
	}
	if err := tried["macvtap"]; err != nil {
		gap(fleet.NetworkMacvtap, "The kernel does not support macvtap devices: %v.", err)
	}
	if err := tried["vlan"]; err != nil {
		gap(fleet.NetworkUplink, "No VLANs: the kernel does not support VLAN devices: %v.", err)
	}
	ctx, cancel := context.WithTimeout(ctx, 6*time.Second)
	defer cancel()
	text, err := exec.CommandContext(ctx, "ovs-vsctl", "--timeout=5", "show").CombinedOutput()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		gap(fleet.NetworkOVS, "Open vSwitch is not installed. Install openvswitch-switch.")
	case err != nil:
		gap(fleet.NetworkOVS, "Open vSwitch does not answer: %s", strings.TrimSpace(string(text)))
	}
	// Glob fails only for a bad pattern
	if found, _ := filepath.Glob(l.sysfs + "/class/net/*/device/sriov_totalvfs"); len(found) == 0 {
		gap(fleet.NetworkSRIOV, "No device has virtual functions (SR-IOV).")
	}
	return out
}

// tryDeviceKinds tries to create a device of each kind. It returns the errors by kind; a nil error means that the kind
// is supported.
func tryDeviceKinds(ctx context.Context) map[string]error {
	done := make(chan map[string]error, 1)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() != unix.Getpid() {
			// the end of the goroutine ends the locked thread, and the end of the thread removes the namespace
			done <- tryDeviceKindsInNamespace()
			return
		}
		// The main thread cannot end, and its namespace is the process's namespace. Block the main thread, so that the
		// runtime uses another thread.
		defer runtime.UnlockOSThread()
		ended := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			defer close(ended)
			done <- tryDeviceKindsInNamespace()
		}()
		<-ended
	}()
	select {
	case out := <-done:
		return out
	case <-ctx.Done():
		return nil
	}
}

// tryDeviceKindsInNamespace moves the current thread into a new network namespace and tries to create the devices in
// it.
func tryDeviceKindsInNamespace() map[string]error {
	out := map[string]error{}
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return out // the process lacks the permission, so support is unknown
	}
	named := func(name string) netlink.LinkAttrs {
		a := netlink.NewLinkAttrs()
		a.Name = name
		return a
	}
	out["bridge"] = netlink.LinkAdd(&netlink.Bridge{LinkAttrs: named("b")})
	out["vxlan"] = netlink.LinkAdd(&netlink.Vxlan{LinkAttrs: named("x"), VxlanId: 1, Port: fleet.VXLANPort})
	under := &netlink.Veth{LinkAttrs: named("v0"), PeerName: "v1"}
	if netlink.LinkAdd(under) != nil {
		return out
	}
	on := func(name string) netlink.LinkAttrs {
		a := named(name)
		a.ParentIndex = under.Attrs().Index
		return a
	}
	out["vlan"] = netlink.LinkAdd(&netlink.Vlan{LinkAttrs: on("l"), VlanId: 2})
	tap := on("m")
	tap.Index = 1<<30 - 16 // all namespaces share the names /dev/tapN: no VM uses this number
	out["macvtap"] = netlink.LinkAdd(&netlink.Macvtap{Macvlan: netlink.Macvlan{LinkAttrs: tap, Mode: netlink.MACVLAN_MODE_BRIDGE}})
	return out
}
