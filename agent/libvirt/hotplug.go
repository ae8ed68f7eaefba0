package libvirt

import (
	"context"
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

// pluggable is a device that a running guest can get and lose.
type pluggable struct {
	alias  string
	path   string                                             // of a disk: one that was moved has its old alias until its guest's next start
	wanted bool                                               // the spec has it
	text   func(at *libvirtxml.DomainAddress) (string, error) // its definition, at that address; nil: wherever there is room
	at     *libvirtxml.DomainAddress
	what   string
}

// pluggables are the devices that Quantix gave the domain and that come and go while it runs.
func (a *applying) pluggables(x *libvirtxml.Domain) []pluggable {
	var out []pluggable
	for _, n := range x.Devices.Interfaces {
		if isOurs(n.Alias, aliasNIC) {
			out = append(out, pluggable{aliasOf(n.Alias), "", hasCard(a.in.VM.Spec.NICs, n), func(at *libvirtxml.DomainAddress) (string, error) {
				n.Address = at
				return n.Marshal()
			}, n.Address, "a network card"})
		}
	}
	for _, d := range x.Devices.Disks {
		if isOurs(d.Alias, aliasDisk) && d.Target != nil && (d.Target.Bus == "virtio" || d.Target.Bus == "scsi") {
			wanted := slices.ContainsFunc(a.in.VM.Spec.Disks, func(o fleet.Disk) bool { return diskAlias(o.Ref()) == aliasOf(d.Alias) })
			out = append(out, pluggable{aliasOf(d.Alias), pathOf(&d), wanted, func(at *libvirtxml.DomainAddress) (string, error) {
				d.Address = at
				return d.Marshal()
			}, d.Address, "a disk"})
		}
	}
	return out
}

func has(all []pluggable, p pluggable) bool {
	return slices.ContainsFunc(all, func(o pluggable) bool { return o.alias == p.alias || p.path != "" && o.path == p.path })
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
	if again && (a.in.PutBack || a.in.Stamped < a.in.VM.Generation) { // it was not done to its end
		tuned = plan.Whole(a.in.VM.Spec)
	}
	if err := a.retune(ctx, guest.ref, tuned, kept, live); err != nil {
		return err
	}
	there := a.pluggables(live)
	for _, p := range a.pluggables(kept) {
		if p.wanted && !has(there, p) && (again || a.adds(plan, p)) {
			if err := a.attach(ctx, guest.ref, p, live); err != nil {
				return err
			}
		}
	}
	return a.release(ctx, guest, a.pluggables(kept))
}

// adds reports whether the edit gives the VM the device.
func (a *applying) adds(plan agent.Edit, p pluggable) bool {
	return slices.ContainsFunc(plan.Disks, func(d fleet.Disk) bool { return diskAlias(d.Ref()) == p.alias }) ||
		slices.ContainsFunc(plan.NICs, func(n fleet.NIC) bool { return cardAlias(n) == p.alias })
}

// attach puts the device where the next start has it, so that the guest's name for it stays, or else wherever there is room.
func (a *applying) attach(ctx context.Context, ref golibvirt.Domain, p pluggable, live *libvirtxml.Domain) error {
	if drive := p.at != nil && p.at.Drive != nil; drive && !slices.ContainsFunc(live.Devices.Controllers, func(c libvirtxml.DomainController) bool { return c.Type == "scsi" }) {
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
	if strings.Contains(err.Error(), "No more available PCI slots") {
		return nil
	}
	return err
}

// release asks the guest for the devices that Quantix gave it and its next start is without, until it has let go of them or does not for long.
func (a *applying) release(ctx context.Context, guest sighted, kept []pluggable) error {
	look := time.NewTicker(lookPeriod)
	defer look.Stop()
	began, asked := time.Now(), time.Time{}
	for {
		live, err := readXML(ctx, a.c, guest.ref, 0)
		if err != nil {
			return err
		}
		held := slices.DeleteFunc(a.pluggables(live), func(p pluggable) bool { return p.wanted || has(kept, p) })
		if len(held) == 0 || time.Since(began) > letGoLimit {
			return nil
		}
		if time.Since(asked) > askPeriod {
			asked = time.Now()
			a.in.Progress(100, "waiting for the guest to let go of "+held[0].what)
			for _, p := range held {
				err := a.c.do(ctx, func(l *golibvirt.Libvirt) error {
					return l.DomainDetachDeviceAlias(guest.ref, p.alias, uint32(golibvirt.DomainDeviceModifyLive))
				})
				if err != nil && !answered(err) {
					return err
				}
			}
		}
		if p, _ := power(guest.state, guest.reason); p == fleet.Paused {
			return nil // it hears nothing until it runs on, and then it has been asked
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-look.C:
		}
	}
}

func hasCard(all []fleet.NIC, n libvirtxml.DomainInterface) bool {
	return slices.ContainsFunc(all, func(w fleet.NIC) bool { return strings.EqualFold(w.MAC, macOf(&n)) })
}

// cardAlias is that of the spec's card: no other's, also none of one that the guest holds on to.
func cardAlias(n fleet.NIC) string {
	return aliasNIC + strings.ToLower(strings.ReplaceAll(n.MAC, ":", ""))
}
