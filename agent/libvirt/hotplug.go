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
	if x.OS == nil || x.OS.Type == nil || !strings.Contains(x.OS.Type.Machine, "q35") || x.Devices == nil {
		return
	}
	d := x.Devices
	missing := sparePorts + len(d.Interfaces) + len(d.RNGs) + len(d.Hostdevs) + 3 // the balloon, and controllers for USB and channels
	for _, disk := range d.Disks {
		if disk.Target != nil && disk.Target.Bus == "virtio" {
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

// plug lets the running guest have the cards that the edit adds, and asks it to let go of those that are out of the definition.
// What it has no room for, or holds on to, waits for its next start: the difference shows. again is an edit that was applied
// before, and perhaps not to its end.
func (a *applying) plug(ctx context.Context, guest sighted, plan agent.Edit, again bool) error {
	kept, err := readXML(ctx, a.c, guest.ref, golibvirt.DomainXMLInactive)
	if err != nil {
		return err
	}
	live, err := readXML(ctx, a.c, guest.ref, 0)
	if err != nil {
		return err
	}
	for _, n := range kept.Devices.Interfaces {
		wanted := plan.NICs
		if again {
			wanted = a.in.VM.Spec.NICs
		}
		if isOurs(n.Alias, aliasNIC) && hasCard(wanted, n) && !slices.ContainsFunc(live.Devices.Interfaces, func(o libvirtxml.DomainInterface) bool { return macOf(&o) == macOf(&n) }) {
			if err := a.attach(ctx, guest.ref, n); err != nil {
				return err
			}
		}
	}
	return a.release(ctx, guest, kept)
}

// attach puts the card where the next start has it, so that the guest's name for it stays, or else wherever there is room.
func (a *applying) attach(ctx context.Context, ref golibvirt.Domain, n libvirtxml.DomainInterface) error {
	var err error
	for _, at := range []*libvirtxml.DomainAddress{n.Address, nil} {
		n.Address = at
		text, bad := n.Marshal()
		if bad != nil {
			return bad
		}
		err = a.c.do(ctx, func(l *golibvirt.Libvirt) error {
			return l.DomainAttachDeviceFlags(ref, text, uint32(golibvirt.DomainDeviceModifyLive))
		})
		if err == nil || !answered(err) {
			return err
		}
		if none := deviceFree(err); none != err { //nolint:errorlint // whether it is the very one
			return none
		}
	}
	if strings.Contains(err.Error(), "No more available PCI slots") {
		return nil
	}
	return err
}

// release asks the guest for the cards that Quantix gave it and its next start is without, until it has let go of them or does not for long.
func (a *applying) release(ctx context.Context, guest sighted, kept *libvirtxml.Domain) error {
	look := time.NewTicker(lookPeriod)
	defer look.Stop()
	began, asked := time.Now(), time.Time{}
	for {
		live, err := readXML(ctx, a.c, guest.ref, 0)
		if err != nil {
			return err
		}
		held := slices.DeleteFunc(live.Devices.Interfaces, func(n libvirtxml.DomainInterface) bool {
			return !isOurs(n.Alias, aliasNIC) || hasCard(a.in.VM.Spec.NICs, n) || slices.ContainsFunc(kept.Devices.Interfaces, func(o libvirtxml.DomainInterface) bool { return macOf(&o) == macOf(&n) })
		})
		if len(held) == 0 || time.Since(began) > letGoLimit {
			return nil
		}
		if time.Since(asked) > askPeriod {
			asked = time.Now()
			a.in.Progress(100, "waiting for the guest to let go of a network card")
			for _, n := range held {
				err := a.c.do(ctx, func(l *golibvirt.Libvirt) error {
					return l.DomainDetachDeviceAlias(guest.ref, aliasOf(n.Alias), uint32(golibvirt.DomainDeviceModifyLive))
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
