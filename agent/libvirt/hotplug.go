package libvirt

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"quantix/agent"
	"quantix/internal/fleet"
)

// sparePorts is how many more cards a q35 guest can get while it runs: it has no place for one but an empty root port.
const sparePorts = 4

// A guest is asked again to let go of a card, as one that is still booting does not hear it, and not for long: others wait.
const (
	letGoLimit = 6 * time.Second
	askPeriod  = 2 * time.Second
	lookPeriod = 200 * time.Millisecond
)

// addPorts gives a q35 definition root ports for the devices that sit in one, and some to spare at the next start.
func addPorts(x *libvirtxml.Domain) {
	if !isQ35(x) || x.Devices == nil {
		return
	}
	d := x.Devices
	missing := sparePorts + len(d.Interfaces) + len(d.RNGs) + len(d.Hostdevs) + len(d.Filesystems) + 3 // the balloon, and controllers for USB and channels
	for _, disk := range d.Disks {
		if disk.Target != nil && (disk.Target.Bus == "virtio" || disk.Target.Bus == "nvme") { // which has a controller of its own
			missing++
		}
	}
	root := false
	for _, c := range d.Controllers {
		root = root || c.Model == "pcie-root"
		if c.Model == "pcie-root-port" {
			missing--
		}
	}
	if !root {
		d.Controllers = append(d.Controllers, libvirtxml.DomainController{Type: "pci", Index: new(uint), Model: "pcie-root"})
	}
	for range missing {
		d.Controllers = append(d.Controllers, libvirtxml.DomainController{Type: "pci", Model: "pcie-root-port"})
	}
}

// pluggable is something that a running guest can get and lose.
type pluggable struct {
	field  string // of the spec
	what   string // which one, for people
	alias  string
	path   string                                             // of a disk: one that was moved has its old alias until its guest's next start
	wanted bool                                               // the spec has it
	text   func(at *libvirtxml.DomainAddress) (string, error) // its definition, at that address; nil: wherever there is room
	at     *libvirtxml.DomainAddress
	usb    bool                                             // it needs a USB controller
	ready  func(context.Context, *applying) error           // finds or makes what text is to say; nil: there is nothing to do
	letGo  func(*golibvirt.Libvirt, golibvirt.Domain) error // asks the guest for it; nil: by its alias
}

// pluggables are the devices that Quantix gave the domain and that come and go while it runs.
func pluggables(x *libvirtxml.Domain, spec fleet.VMSpec) []pluggable {
	var out []pluggable
	for _, n := range x.Devices.Interfaces {
		if isOurs(n.Alias, aliasNIC) {
			out = append(out, pluggable{field: "nics", what: "network card " + macOf(&n), alias: aliasOf(n.Alias), wanted: hasNIC(spec.NICs, n), text: func(at *libvirtxml.DomainAddress) (string, error) {
				n.Address = at
				return n.Marshal()
			}, at: n.Address})
		}
	}
	for _, d := range x.Devices.Disks {
		p := pluggable{field: "disks", alias: aliasOf(d.Alias), path: pathOf(&d), text: func(at *libvirtxml.DomainAddress) (string, error) {
			d.Address = at
			return d.Marshal()
		}, at: d.Address, usb: d.Target != nil && d.Target.Bus == "usb"}
		switch name := physicalOf(&d); {
		case name != "":
			p.field, p.what, p.wanted = "hostDevices", name, hasDevice(spec.HostDevices, name)
			p.ready = func(ctx context.Context, a *applying) error {
				return a.physicalsFree(ctx, a.c, a.in.VM.ID, []fleet.VMHostDevice{{Device: name}}, true)
			}
		case isOurs(d.Alias, aliasDisk) && d.Target != nil && readDisk(d, fleet.Disk{}).Plugs():
			p.what = fmt.Sprintf("disk %s (%s)", targetOf(&d), path.Base(pathOf(&d)))
			p.wanted = slices.ContainsFunc(spec.Disks, func(o fleet.Disk) bool { return diskAlias(o.Ref()) == p.alias })
		default:
			continue
		}
		out = append(out, p)
	}
	for _, d := range x.Devices.Hostdevs {
		if name := deviceOf(d); isHostDevice(d) {
			out = append(out, pluggable{field: "hostDevices", what: name, alias: aliasOf(d.Alias), wanted: hasDevice(spec.HostDevices, name), text: func(at *libvirtxml.DomainAddress) (string, error) {
				d.Address = at
				return d.Marshal()
			}, at: d.Address, usb: d.SubsysUSB != nil, ready: func(_ context.Context, a *applying) error {
				_, err := a.readyDevice(x.UUID, &d)
				return err
			}})
		}
	}
	return out
}

func has(all []pluggable, p pluggable) bool {
	return slices.ContainsFunc(all, func(o pluggable) bool { return o.alias == p.alias || p.path != "" && o.path == p.path })
}

// heldOn is what the running guest has of what Quantix gave it, though its next start is without: it is to let go of that.
func heldOn(kept, live *libvirtxml.Domain, spec fleet.VMSpec) []pluggable {
	stay := pluggables(kept, spec)
	out := slices.DeleteFunc(pluggables(live, spec), func(p pluggable) bool { return p.wanted || has(stay, p) })
	return slices.Concat(out, surplusMemory(kept, live, spec), surplusCPUs(kept, live, spec))
}

func toldHeld(all []pluggable) (out []fleet.PendingUnplug) {
	for _, p := range all {
		out = append(out, fleet.PendingUnplug{Field: p.field, What: p.what})
	}
	return out
}

// plug lets the running guest have what the edit adds, and asks it to let go of what is out of the definition.
// What it has no room for, or holds on to, waits for its next start: the difference shows. again is an edit that was applied
// before, and perhaps not to its end.
func (a *applying) plug(ctx context.Context, guest sighted, plan agent.Edit, again bool) error {
	kept, err := readXML(ctx, a.c, guest.ref, golibvirt.DomainXMLInactive|golibvirt.DomainXMLSecure)
	if err != nil {
		return err
	}
	live, err := readXML(ctx, a.c, guest.ref, 0)
	if err != nil {
		return err
	}
	tuned := plan
	if again && (a.in.Reapply || a.in.Stamped < a.in.VM.Generation) { // it was not done to its end
		tuned = plan.Whole(a.in.VM.Spec)
	}
	if err := a.retune(ctx, guest.ref, tuned, kept, live); err != nil {
		return err
	}
	there := pluggables(live, a.in.VM.Spec)
	for _, p := range pluggables(kept, a.in.VM.Spec) {
		if p.wanted && !has(there, p) && (again || adds(plan, p, guest.kept)) {
			if err := a.attach(ctx, guest.ref, p, live); err != nil {
				return err
			}
		}
	}
	if live, err = a.release(ctx, guest, kept, tuned.Has("cpus")); err != nil {
		return err
	}
	return a.keepMdevs(kept, live)
}

// adds reports whether the edit gives the VM the device. was is its definition before.
func adds(plan agent.Edit, p pluggable, was hardware) bool {
	return slices.ContainsFunc(plan.Disks, func(d fleet.Disk) bool { return diskAlias(d.Ref()) == p.alias }) ||
		slices.ContainsFunc(plan.NICs, func(n fleet.NIC) bool { return nicAlias(n) == p.alias }) ||
		p.field == "hostDevices" && plan.Has(p.field) && !hasDevice(was.parts.HostDevices, p.what)
}

// attach puts the device where the next start has it, so that the guest's name for it stays, or else wherever there is room.
func (a *applying) attach(ctx context.Context, ref golibvirt.Domain, p pluggable, live *libvirtxml.Domain) error {
	has := func(kind string) bool {
		return slices.ContainsFunc(live.Devices.Controllers, func(c libvirtxml.DomainController) bool { return c.Type == kind && c.Model != "none" })
	}
	if p.usb && !has("usb") {
		return nil
	}
	if p.ready != nil {
		if err := p.ready(ctx, a); err != nil {
			return err
		}
	}
	if drive := p.at != nil && p.at.Drive != nil; drive && !has("scsi") {
		c := newSCSI()
		text, err := c.Marshal()
		if err != nil {
			return err
		}
		if err := a.attachText(ctx, ref, text); err != nil {
			return noRoom(err)
		}
	}
	var err error
	for _, at := range []*libvirtxml.DomainAddress{p.at, nil} {
		text, bad := p.text(at)
		if bad != nil {
			return bad
		}
		if err = a.attachText(ctx, ref, text); err == nil || !answered(err) {
			return err
		}
		if none := deviceFree(err); none != err { //nolint:errorlint // whether it is the very one
			return none
		}
	}
	return noRoom(err)
}

func (a *applying) attachText(ctx context.Context, ref golibvirt.Domain, text string) error {
	return a.c.do(ctx, func(l *golibvirt.Libvirt) error {
		return l.DomainAttachDeviceFlags(ref, text, uint32(golibvirt.DomainDeviceModifyLive))
	})
}

// noRoom is nil where the guest has no place for a device: it gets it at its next start.
func noRoom(err error) error {
	if strings.Contains(err.Error(), "No more available PCI slots") || strings.Contains(err.Error(), "No free USB port") {
		return nil
	}
	return err
}

// release asks the guest for what it is to let go of, until it has, or does not for long. cpus: for vCPUs, too, as the edit says how many there are.
// live is the guest as it then is.
func (a *applying) release(ctx context.Context, guest sighted, kept *libvirtxml.Domain, cpus bool) (live *libvirtxml.Domain, err error) {
	look := time.NewTicker(lookPeriod)
	defer look.Stop()
	began, asked := time.Now(), time.Time{}
	for {
		if live, err = readXML(ctx, a.c, guest.ref, 0); err != nil {
			return nil, err
		}
		held := slices.DeleteFunc(heldOn(kept, live, a.in.VM.Spec), func(p pluggable) bool { return p.field == "cpus" && !cpus })
		if len(held) == 0 || time.Since(began) > letGoLimit {
			return live, nil
		}
		if time.Since(asked) > askPeriod {
			asked = time.Now()
			a.in.Progress(100, "waiting for the guest to let go of "+held[0].what)
			for _, p := range held {
				err := a.c.do(ctx, func(l *golibvirt.Libvirt) error {
					if p.letGo != nil {
						return p.letGo(l, guest.ref)
					}
					return l.DomainDetachDeviceAlias(guest.ref, p.alias, uint32(golibvirt.DomainDeviceModifyLive))
				})
				if err != nil && !answered(err) {
					return nil, err
				}
			}
		}
		if p, _ := power(guest.state, guest.reason); p == fleet.Paused {
			return live, nil // it hears nothing until it runs on, and then it has been asked
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-look.C:
		}
	}
}

func hasNIC(all []fleet.NIC, n libvirtxml.DomainInterface) bool {
	return slices.ContainsFunc(all, func(w fleet.NIC) bool { return strings.EqualFold(w.MAC, macOf(&n)) })
}

// nicAlias is that of the spec's card: no other's, also none of one that the guest holds on to.
func nicAlias(n fleet.NIC) string {
	return aliasNIC + strings.ToLower(strings.ReplaceAll(n.MAC, ":", ""))
}

func hasDevice(all []fleet.VMHostDevice, name string) bool {
	return slices.ContainsFunc(all, func(w fleet.VMHostDevice) bool { return w.Device == name })
}
