package link

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"quantix/internal/fleet"
)

// fakeKernel is a kernel in memory that supports bridges on devices.
type fakeKernel struct {
	devices        map[string]*device
	steps          []string
	failingStep    stepKind // kind of the step that fails next
	before         func(step)
	carrierDevices []string
}

func newFakeKernel() *fakeKernel {
	return &fakeKernel{devices: map[string]*device{"eth1": newUplinkDevice()}}
}

func (f *fakeKernel) String() string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(f.devices)) {
		d := *f.devices[name]
		slices.SortFunc(d.Routes, func(a, b Route) int { return strings.Compare(a.To, b.To) })
		out = append(out, fmt.Sprintf("%s %s %q master=%q up=%v stp=%v %v %v", d.Name, d.Kind, d.Owner, d.Master, d.Up, d.STP, d.Addresses, d.Routes))
	}
	return strings.Join(out, "\n")
}

func copyDevice(d *device) *device {
	if d == nil {
		return nil
	}
	c := *d
	c.Addresses, c.Routes = slices.Clone(d.Addresses), slices.Clone(d.Routes)
	return &c
}

func (f *fakeKernel) read(n fleet.Network, _ bool) (p hostState, err error) {
	p = hostState{
		bridge: copyDevice(f.devices[n.BridgeDevice()]), tunnel: copyDevice(f.devices[n.TunnelDevice()]), vlan: copyDevice(f.devices[n.VLANDevice()]),
		uplink: copyDevice(f.devices[n.Spec.Device]),
	}
	for name, d := range f.devices {
		if d.Master == n.BridgeDevice() {
			if p.ports = append(p.ports, name); !isGuestPort(name, d.Kind) {
				p.nonGuestPorts = append(p.nonGuestPorts, name)
			}
		}
	}
	return p, nil
}

func (f *fakeKernel) doAll(steps []step) {
	for _, s := range steps {
		if err := f.runStep(s); err != nil {
			panic(err)
		}
	}
}

func (f *fakeKernel) runStep(s step) error {
	if f.failingStep == s.kind {
		f.failingStep = ""
		return fmt.Errorf("operation not permitted")
	}
	f.steps = append(f.steps, s.String())
	if f.before != nil {
		f.before(s)
	}
	if s.kind == addBridge {
		if f.devices[s.device] != nil {
			return fmt.Errorf("file exists")
		}
		f.devices[s.device] = &device{Name: s.device, Kind: "bridge", Owner: s.owner, MAC: s.to, MTU: s.mtu}
		return nil
	}
	d := f.devices[s.device]
	if d == nil {
		return fmt.Errorf("no such device %s", s.device)
	}
	switch s.kind {
	case removeLink:
		delete(f.devices, s.device)
		for _, o := range f.devices {
			if o.Master == s.device {
				o.Master = ""
			}
		}
	case joinBridge:
		if f.devices[s.to] == nil {
			return fmt.Errorf("no such device %s", s.to)
		}
		d.Master = s.to
	case setSTP:
		d.STP = s.number == 1
	case leaveBridge:
		d.Master = ""
	case bringUp:
		d.Up = true
	case dropAddress:
		d.Addresses = slices.DeleteFunc(slices.Clone(d.Addresses), func(a IPAddress) bool { return a.CIDR == s.addr.CIDR })
	case giveAddress:
		if !slices.Contains(d.Addresses, s.addr) {
			d.Addresses = append(d.Addresses, s.addr)
		}
	case dropRoute:
		d.Routes = slices.DeleteFunc(slices.Clone(d.Routes), func(r Route) bool { return r == s.route })
	case giveRoute:
		if !slices.Contains(d.Routes, s.route) {
			d.Routes = append(d.Routes, s.route)
		}
	}
	return nil
}

func (f *fakeKernel) routeDevices(string) []string                   { return f.carrierDevices }
func (f *fakeKernel) virtualFunctions(string) fleet.NetworkNICs      { return fleet.NetworkNICs{} }
func (f *fakeKernel) checkOpenVSwitch(context.Context, string) error { return nil }
