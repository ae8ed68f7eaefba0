package libvirt

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/domxml"
	"quantix/agent/libvirt/network"
	"quantix/internal/fleet"
)

// The agent repeats an unplug request after unplugRetry, because a booting guest ignores requests. unplugTimeout is
// short, because other jobs of the VM wait.
const (
	unplugTimeout = 6 * time.Second
	unplugRetry   = 2 * time.Second
	pollPeriod    = 200 * time.Millisecond
)

// pluggableDevice is a device that a running guest can gain and lose.
type pluggableDevice struct {
	field string // field of the spec
	label string // label for people
	alias string // name by which the definition and the running guest have the same device
	// handle is the device's alias in libvirt, if it may differ from alias, as for devices of an adopted VM
	handle string
	// path identifies a disk, because a migrated disk has its old alias until the guest's next start
	path      string
	wanted    bool                                               // whether the spec has the device
	deviceXML func(at *libvirtxml.DomainAddress) (string, error) // device XML for that address; nil: any address
	address   *libvirtxml.DomainAddress
	usb       bool // needs a USB controller
	// prepare prepares the device before the attach; nil: nothing to prepare
	prepare func(context.Context, *applyRun) error
	unplug  func(*golibvirt.Libvirt, golibvirt.Domain) error // requests the unplug; nil: by alias
}

// pluggableDevices returns the hot-pluggable devices of the definition that Quantix manages.
func pluggableDevices(x *libvirtxml.Domain, names domxml.DeviceNames, spec fleet.VMSpec) []pluggableDevice {
	var out []pluggableDevice
	for _, n := range x.Devices.Interfaces {
		if name := names.NICName(&n); strings.HasPrefix(name, domxml.NICAliasPrefix) {
			out = append(out, pluggableDevice{field: "nics", label: "NIC " + domxml.NICMACOf(&n), alias: name, handle: domxml.AliasOf(n.Alias), wanted: specHasNIC(spec.NICs, n), deviceXML: func(at *libvirtxml.DomainAddress) (string, error) {
				n.Address = at
				return n.Marshal()
			}, address: n.Address})
		}
	}
	for _, d := range x.Devices.Disks {
		p := pluggableDevice{field: "disks", alias: names.DiskName(&d), handle: domxml.AliasOf(d.Alias), path: domxml.DiskPathOf(&d), deviceXML: func(at *libvirtxml.DomainAddress) (string, error) {
			d.Address = at
			return d.Marshal()
		}, address: d.Address, usb: d.Target != nil && d.Target.Bus == "usb"}
		switch name := domxml.PhysicalDiskName(&d); {
		case name != "":
			p.field, p.label, p.wanted = "hostDevices", name, specHasHostDevice(spec.HostDevices, name)
			p.prepare = func(ctx context.Context, a *applyRun) error {
				return a.checkPhysicalDisksFree(ctx, a.c, a.in.VM.ID, []fleet.VMHostDevice{{Device: name}}, true)
			}
		case strings.HasPrefix(p.alias, domxml.DiskAliasPrefix) && d.Target != nil && domxml.ReadDisk(d, fleet.Disk{}).SupportsHotPlug():
			p.label = fmt.Sprintf("disk %s (%s)", domxml.DiskTargetOf(&d), path.Base(domxml.DiskPathOf(&d)))
			p.wanted = slices.ContainsFunc(spec.Disks, func(o fleet.Disk) bool { return domxml.DiskAlias(o.Ref()) == p.alias })
		default:
			continue
		}
		out = append(out, p)
	}
	for _, d := range x.Devices.Hostdevs {
		if name := domxml.HostDeviceName(d); domxml.IsManagedHostDevice(d) {
			out = append(out, pluggableDevice{field: "hostDevices", label: name, alias: domxml.AliasOf(d.Alias), wanted: specHasHostDevice(spec.HostDevices, name), deviceXML: func(at *libvirtxml.DomainAddress) (string, error) {
				d.Address = at
				return d.Marshal()
			}, address: d.Address, usb: d.SubsysUSB != nil, prepare: func(_ context.Context, a *applyRun) error {
				_, err := a.prepareHostDevice(x.UUID, &d)
				return err
			}})
		}
	}
	return out
}

// hasPluggableDevice reports whether all contains the device p, by alias or path.
func hasPluggableDevice(all []pluggableDevice, p pluggableDevice) bool {
	return slices.ContainsFunc(all, func(o pluggableDevice) bool { return o.alias == p.alias || p.path != "" && o.path == p.path })
}

// pendingUnplugs returns the managed devices that the running guest has and the definition of its next start lacks.
func pendingUnplugs(kept, live *libvirtxml.Domain, names domxml.DeviceNames, spec fleet.VMSpec) []pluggableDevice {
	stay := pluggableDevices(kept, names, spec)
	out := slices.DeleteFunc(pluggableDevices(live, names, spec), func(p pluggableDevice) bool { return p.wanted || hasPluggableDevice(stay, p) })
	return slices.Concat(out, memoryToUnplug(kept, live, spec), cpusToUnplug(kept, live, spec))
}

func reportUnplugs(all []pluggableDevice) (out []fleet.PendingUnplug) {
	for _, p := range all {
		out = append(out, fleet.PendingUnplug{Field: p.field, What: p.label})
	}
	return out
}

// hotPlugChanges hot-plugs the devices that the edit adds and unplugs the devices that the definition no longer has. If
// the guest has no slot for a device, or does not release one, the change waits for the next start and is reported.
// again marks an edit that an earlier job may have applied incompletely. record is the record of the edit. live is the
// running guest's definition afterwards.
func (a *applyRun) hotPlugChanges(ctx context.Context, guest observedDomain, record *hypervisor.AppliedRecord, plan hypervisor.DefinitionEdit, again bool) (live *libvirtxml.Domain, err error) {
	kept, err := conn.ReadDefinition(ctx, a.c, guest.ref, golibvirt.DomainXMLInactive|golibvirt.DomainXMLSecure)
	if err != nil {
		return nil, err
	}
	if live, err = conn.ReadDefinition(ctx, a.c, guest.ref, 0); err != nil {
		return nil, err
	}
	names := domxml.NewDeviceNames(record, a.assignedPools.Lookup(), kept)
	tuned := plan
	if again && (a.in.Reapply && len(a.in.ReapplyFields) == 0 || a.in.AppliedGeneration < a.in.VM.Generation) { // the earlier attempt did not complete
		tuned = plan.WithAllFields(a.in.VM.Spec)
	}
	if err := a.applyToRunningGuest(ctx, guest.ref, tuned, names, kept, live); err != nil {
		return nil, err
	}
	there := pluggableDevices(live, names, a.in.VM.Spec)
	for _, p := range pluggableDevices(kept, names, a.in.VM.Spec) {
		if p.wanted && !hasPluggableDevice(there, p) && (again || editAddsDevice(plan, p, guest.persistent)) {
			if err := a.attachDevice(ctx, guest.ref, p, live); err != nil {
				return nil, err
			}
		}
	}
	if live, err = a.unplugSurplusDevices(ctx, guest, kept, names, tuned.SetsField("cpus")); err != nil {
		return nil, err
	}
	return live, a.removeOtherMdevs(kept, live)
}

// editAddsDevice reports whether the edit gives the VM the device. was is the definition before the edit.
func editAddsDevice(plan hypervisor.DefinitionEdit, p pluggableDevice, was domxml.Hardware) bool {
	return slices.ContainsFunc(plan.Disks, func(d fleet.Disk) bool { return domxml.DiskAlias(d.Ref()) == p.alias }) ||
		slices.ContainsFunc(plan.NICs, func(n fleet.NIC) bool { return domxml.NICAlias(n) == p.alias }) ||
		p.field == "hostDevices" && plan.SetsField(p.field) && !specHasHostDevice(was.FieldValues.HostDevices, p.label)
}

// attachDevice hot-plugs the device at the address that the device has at the next start, so that its name in the guest
// stays the same. If that fails, it uses any free address.
func (a *applyRun) attachDevice(ctx context.Context, ref golibvirt.Domain, p pluggableDevice, live *libvirtxml.Domain) error {
	has := func(kind string) bool {
		return slices.ContainsFunc(live.Devices.Controllers, func(c libvirtxml.DomainController) bool { return c.Type == kind && c.Model != "none" })
	}
	if p.usb && !has("usb") {
		return nil
	}
	if p.prepare != nil {
		if err := p.prepare(ctx, a); err != nil {
			return err
		}
	}
	if drive := p.address != nil && p.address.Drive != nil; drive && !has("scsi") {
		c := domxml.NewSCSIController()
		text, err := c.Marshal()
		if err != nil {
			return err
		}
		if err := a.attachXML(ctx, ref, text); err != nil {
			return ignoreNoSlotError(err)
		}
	}
	var err error
	for _, at := range []*libvirtxml.DomainAddress{p.address, nil} {
		text, bad := p.deviceXML(at)
		if bad != nil {
			return bad
		}
		if err = a.attachXML(ctx, ref, text); err == nil || !conn.IsLibvirtError(err) {
			return err
		}
		if none := network.TranslateNoFreeDevice(err); none != err { //nolint:errorlint // network.TranslateNoFreeDevice returns err itself unless a network has no free device
			return none
		}
	}
	return ignoreNoSlotError(err)
}

func (a *applyRun) attachXML(ctx context.Context, ref golibvirt.Domain, text string) error {
	return a.c.Do(ctx, func(l *golibvirt.Libvirt) error {
		return l.DomainAttachDeviceFlags(ref, text, uint32(golibvirt.DomainDeviceModifyLive))
	})
}

// ignoreNoSlotError returns nil for an error about a missing slot, because the guest gets the device at its next start.
// It returns other errors unchanged.
func ignoreNoSlotError(err error) error {
	if strings.Contains(err.Error(), "No more available PCI slots") || strings.Contains(err.Error(), "No free USB port") {
		return nil
	}
	return err
}

// unplugSurplusDevices requests the unplug of surplus devices until the guest has released them or unplugTimeout has passed.
// It unplugs vCPUs only if cpus is set. live is the running guest's definition afterwards.
func (a *applyRun) unplugSurplusDevices(ctx context.Context, guest observedDomain, kept *libvirtxml.Domain, names domxml.DeviceNames, cpus bool) (live *libvirtxml.Domain, err error) {
	look := time.NewTicker(pollPeriod)
	defer look.Stop()
	began, requested := time.Now(), time.Time{}
	for {
		if live, err = conn.ReadDefinition(ctx, a.c, guest.ref, 0); err != nil {
			return nil, err
		}
		pending := slices.DeleteFunc(pendingUnplugs(kept, live, names, a.in.VM.Spec), func(p pluggableDevice) bool { return p.field == "cpus" && !cpus })
		if len(pending) == 0 || time.Since(began) > unplugTimeout {
			return live, nil
		}
		if time.Since(requested) > unplugRetry {
			requested = time.Now()
			a.in.Progress(100, "waiting for the guest to release "+pending[0].label)
			for _, p := range pending {
				err := a.c.Do(ctx, func(l *golibvirt.Libvirt) error {
					if p.unplug != nil {
						return p.unplug(l, guest.ref)
					}
					return l.DomainDetachDeviceAlias(guest.ref, cmp.Or(p.handle, p.alias), uint32(golibvirt.DomainDeviceModifyLive))
				})
				if err != nil && !conn.IsLibvirtError(err) {
					return nil, err
				}
			}
		}
		if p, _ := translatePower(guest.state, guest.reason); p == fleet.Paused {
			return live, nil // a paused guest handles the request after it resumes
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-look.C:
		}
	}
}

func specHasNIC(all []fleet.NIC, n libvirtxml.DomainInterface) bool {
	return slices.ContainsFunc(all, func(w fleet.NIC) bool { return strings.EqualFold(w.MAC, domxml.NICMACOf(&n)) })
}

func specHasHostDevice(all []fleet.VMHostDevice, name string) bool {
	return slices.ContainsFunc(all, func(w fleet.VMHostDevice) bool { return w.Device == name })
}
