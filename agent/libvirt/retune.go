package libvirt

import (
	"context"
	"slices"
	"strings"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// applyToRunningGuest applies the edit to the running guest as far as libvirt can. The other changes take effect at the
// next start; until then the VM's status lists them as pending.
func (a *applyRun) applyToRunningGuest(ctx context.Context, ref golibvirt.Domain, plan hypervisor.DefinitionEdit, inactive, live *libvirtxml.Domain) error {
	if plan.SetsField("iso") {
		if err := a.changeISO(ctx, ref, inactive, live); err != nil {
			return err
		}
	}
	if plan.SetsField("drives") {
		if err := a.changeDriveMedia(ctx, ref, inactive, live); err != nil {
			return err
		}
	}
	// The host later lowers the balloon again if the host runs short of memory.
	if plan.SetsField("memory.balloonMiB") || plan.SetsField("memory.minMiB") || plan.SetsField("memoryMiB") {
		if err := a.setLiveBalloon(ctx, ref, inactive, live); err != nil {
			return err
		}
	}
	if plan.SetsField("cpus") {
		if err := a.hotPlugCPUs(ctx, ref, pluggedCPUs(inactive), live); err != nil {
			return err
		}
	}
	if plan.SetsField("memoryMiB") {
		if err := a.hotPlugMemory(ctx, ref, inactive, live); err != nil {
			return err
		}
	}
	if plan.SetsField("cpu.shares") || plan.SetsField("cpu.limit") {
		if err := a.applyCPUSchedule(ctx, ref, inactive, live); err != nil {
			return err
		}
	}
	for _, set := range plan.SetDisks {
		if err := a.applyDiskLimits(ctx, ref, diskAlias(set.Device.Ref()), inactive, live); err != nil {
			return err
		}
	}
	for _, set := range plan.SetNICs {
		if err := a.applyNICSettings(ctx, ref, set, inactive, live); err != nil {
			return err
		}
	}
	return nil
}

// changeISO changes or ejects the medium of the guest's CD-ROM drive. A drive that the guest has locked keeps its
// medium.
func (a *applyRun) changeISO(ctx context.Context, ref golibvirt.Domain, inactive, live *libvirtxml.Domain) error {
	want, has := cdromIndex(inactive), cdromIndex(live)
	if want < 0 || has < 0 {
		return nil
	}
	return a.changeDriveMedium(ctx, ref, inactive.Devices.Disks[want], live.Devices.Disks[has])
}

// changeDriveMedia changes or ejects the media of the guest's other drives.
func (a *applyRun) changeDriveMedia(ctx context.Context, ref golibvirt.Domain, inactive, live *libvirtxml.Domain) error {
	for _, want := range inactive.Devices.Disks {
		has := slices.IndexFunc(live.Devices.Disks, func(d libvirtxml.DomainDisk) bool { return aliasOf(d.Alias) == aliasOf(want.Alias) })
		if hasAliasPrefix(want.Alias, driveAliasPrefix) && has >= 0 {
			if err := a.changeDriveMedium(ctx, ref, want, live.Devices.Disks[has]); err != nil {
				return err
			}
		}
	}
	return nil
}

// changeDriveMedium changes the medium of one drive. If the guest has locked the tray, changeDriveMedium changes
// nothing and returns no error.
func (a *applyRun) changeDriveMedium(ctx context.Context, ref golibvirt.Domain, want, drive libvirtxml.DomainDisk) error {
	if diskPathOf(&drive) == diskPathOf(&want) {
		return nil
	}
	drive.Source, drive.BackingStore = want.Source, nil
	text, err := drive.Marshal()
	if err != nil {
		return err
	}
	err = a.c.do(ctx, func(l *golibvirt.Libvirt) error {
		return l.DomainUpdateDeviceFlags(ref, text, golibvirt.DomainDeviceModifyLive)
	})
	if err != nil && isLibvirtError(err) && (strings.Contains(err.Error(), "locked") || strings.Contains(err.Error(), "tray")) {
		return nil
	}
	return err
}

// hotPlugCPUs hot-plugs vCPUs, up to the guest's maximum.
func (a *applyRun) hotPlugCPUs(ctx context.Context, ref golibvirt.Domain, want int, live *libvirtxml.Domain) error {
	if want <= pluggedCPUs(live) || want > maxHotPlugCPUs(live) || !supportsCPUHotPlug(live.Type, secureBootOf(live)) {
		return nil
	}
	return a.c.do(ctx, func(l *golibvirt.Libvirt) error {
		return l.DomainSetVcpusFlags(ref, uint32(want), uint32(golibvirt.DomainVCPULive))
	})
}

// applyDiskLimits applies the definition's I/O limits to the guest's disk.
func (a *applyRun) applyDiskLimits(ctx context.Context, ref golibvirt.Domain, alias string, inactive, live *libvirtxml.Domain) error {
	is := func(d libvirtxml.DomainDisk) bool { return aliasOf(d.Alias) == alias }
	k, l := slices.IndexFunc(inactive.Devices.Disks, is), slices.IndexFunc(live.Devices.Disks, is)
	if k < 0 || l < 0 {
		return nil
	}
	want, now := inactive.Devices.Disks[k], live.Devices.Disks[l]
	if readDisk(want, fleet.Disk{}).Limits == readDisk(now, fleet.Disk{}).Limits {
		return nil
	}
	t := copyOrZero(want.IOTune)
	var limits []golibvirt.TypedParam
	set := func(field string, n uint64) {
		limits = append(limits, golibvirt.TypedParam{Field: field, Value: *golibvirt.NewTypedParamValueUllong(n)})
	}
	set(golibvirt.DomainBlockIotuneTotalIopsSec, t.TotalIopsSec)
	set(golibvirt.DomainBlockIotuneReadIopsSec, t.ReadIopsSec)
	set(golibvirt.DomainBlockIotuneWriteIopsSec, t.WriteIopsSec)
	set(golibvirt.DomainBlockIotuneTotalBytesSec, t.TotalBytesSec)
	set(golibvirt.DomainBlockIotuneReadBytesSec, t.ReadBytesSec)
	set(golibvirt.DomainBlockIotuneWriteBytesSec, t.WriteBytesSec)
	set(golibvirt.DomainBlockIotuneTotalIopsSecMax, t.TotalIopsSecMax)
	set(golibvirt.DomainBlockIotuneTotalBytesSecMax, t.TotalBytesSecMax)
	length := func(burst, seconds uint64) uint64 {
		if burst == 0 {
			return 0
		}
		return max(seconds, 1)
	}
	set(golibvirt.DomainBlockIotuneTotalIopsSecMaxLength, length(t.TotalIopsSecMax, t.TotalIopsSecMaxLength))
	set(golibvirt.DomainBlockIotuneTotalBytesSecMaxLength, length(t.TotalBytesSecMax, t.TotalBytesSecMaxLength))
	return a.c.do(ctx, func(l *golibvirt.Libvirt) error {
		return l.DomainSetBlockIOTune(ref, diskTargetOf(&now), limits, uint32(golibvirt.DomainAffectLive))
	})
}

// applyNICSettings applies the definition's link state and limits to the guest's NIC.
func (a *applyRun) applyNICSettings(ctx context.Context, ref golibvirt.Domain, set hypervisor.DeviceChange[fleet.NIC], inactive, live *libvirtxml.Domain) error {
	is := func(n libvirtxml.DomainInterface) bool { return strings.EqualFold(nicMACOf(&n), set.Device.MAC) }
	k, l := slices.IndexFunc(inactive.Devices.Interfaces, is), slices.IndexFunc(live.Devices.Interfaces, is)
	if k < 0 || l < 0 {
		return nil
	}
	now := live.Devices.Interfaces[l]
	want, has := readNIC(inactive.Devices.Interfaces[k], fleet.NIC{}), readNIC(now, fleet.NIC{})
	if want.Limits == (fleet.NICLimits{}) && set.Device.PortGroup != "" {
		want.Limits = has.Limits // the limits of the NIC's port group
	}
	if want.Limits == has.Limits && want.LinkDown == has.LinkDown {
		return nil
	}
	if now.Link = inactive.Devices.Interfaces[k].Link; want.Limits != has.Limits {
		now.Bandwidth = inactive.Devices.Interfaces[k].Bandwidth
	}
	text, err := now.Marshal()
	if err != nil {
		return err
	}
	return a.c.do(ctx, func(l *golibvirt.Libvirt) error {
		return l.DomainUpdateDeviceFlags(ref, text, golibvirt.DomainDeviceModifyLive)
	})
}
