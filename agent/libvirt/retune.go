package libvirt

import (
	"context"
	"slices"
	"strings"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/domxml"
	"quantix/internal/fleet"
)

// applyToRunningGuest applies the edit to the running guest as far as libvirt can. The other changes take effect at the
// next start; until then the VM's status lists them as pending.
func (a *applyRun) applyToRunningGuest(ctx context.Context, ref golibvirt.Domain, plan hypervisor.DefinitionEdit, names domxml.DeviceNames, inactive, live *libvirtxml.Domain) error {
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
	// The guest gets its balloon size from the definition. If the host runs short of memory, the agent shrinks the
	// balloon later.
	if plan.SetsField("memory.balloonMiB") || plan.SetsField("memory.minMiB") || plan.SetsField("memoryMiB") {
		if err := a.setLiveBalloon(ctx, ref, inactive, live); err != nil {
			return err
		}
	}
	if plan.SetsField("cpus") {
		if err := a.hotPlugCPUs(ctx, ref, domxml.PluggedCPUs(inactive), live); err != nil {
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
		if err := a.applyDiskLimits(ctx, ref, domxml.DiskAlias(set.Device.Ref()), names, inactive, live); err != nil {
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
	want, has := domxml.CDROMIndex(inactive), domxml.CDROMIndex(live)
	if want < 0 || has < 0 {
		return nil
	}
	return a.changeDriveMedium(ctx, ref, inactive.Devices.Disks[want], live.Devices.Disks[has])
}

// changeDriveMedia changes or ejects the media of the guest's other drives.
func (a *applyRun) changeDriveMedia(ctx context.Context, ref golibvirt.Domain, inactive, live *libvirtxml.Domain) error {
	for _, want := range inactive.Devices.Disks {
		has := slices.IndexFunc(live.Devices.Disks, func(d libvirtxml.DomainDisk) bool { return domxml.AliasOf(d.Alias) == domxml.AliasOf(want.Alias) })
		if domxml.HasAliasPrefix(want.Alias, domxml.DriveAliasPrefix) && has >= 0 {
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
	if domxml.DiskPathOf(&drive) == domxml.DiskPathOf(&want) {
		return nil
	}
	drive.Source, drive.BackingStore = want.Source, nil
	text, err := drive.Marshal()
	if err != nil {
		return err
	}
	err = a.c.Do(ctx, func(l *golibvirt.Libvirt) error {
		return l.DomainUpdateDeviceFlags(ref, text, golibvirt.DomainDeviceModifyLive)
	})
	if err != nil && conn.IsLibvirtError(err) && (strings.Contains(err.Error(), "locked") || strings.Contains(err.Error(), "tray")) {
		return nil
	}
	return err
}

// hotPlugCPUs hot-plugs vCPUs, up to the guest's maximum.
func (a *applyRun) hotPlugCPUs(ctx context.Context, ref golibvirt.Domain, want int, live *libvirtxml.Domain) error {
	if want <= domxml.PluggedCPUs(live) || want > domxml.MaxHotPlugCPUs(live) || !domxml.SupportsCPUHotPlug(live.Type, domxml.HasSecureBoot(live)) {
		return nil
	}
	return a.c.Do(ctx, func(l *golibvirt.Libvirt) error {
		return l.DomainSetVcpusFlags(ref, uint32(want), uint32(golibvirt.DomainVCPULive))
	})
}

// applyDiskLimits applies the definition's I/O limits to the guest's disk.
func (a *applyRun) applyDiskLimits(ctx context.Context, ref golibvirt.Domain, alias string, names domxml.DeviceNames, inactive, live *libvirtxml.Domain) error {
	is := func(d libvirtxml.DomainDisk) bool { return names.DiskName(&d) == alias }
	k, l := slices.IndexFunc(inactive.Devices.Disks, is), slices.IndexFunc(live.Devices.Disks, is)
	if k < 0 || l < 0 {
		return nil
	}
	want, now := inactive.Devices.Disks[k], live.Devices.Disks[l]
	if domxml.ReadDisk(want, fleet.Disk{}).Limits == domxml.ReadDisk(now, fleet.Disk{}).Limits {
		return nil
	}
	t := domxml.CopyOrZero(want.IOTune)
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
	return a.c.Do(ctx, func(l *golibvirt.Libvirt) error {
		return l.DomainSetBlockIOTune(ref, domxml.DiskTargetOf(&now), limits, uint32(golibvirt.DomainAffectLive))
	})
}

// applyNICSettings applies the definition's link state and limits to the guest's NIC.
func (a *applyRun) applyNICSettings(ctx context.Context, ref golibvirt.Domain, set hypervisor.DeviceChange[fleet.NIC], inactive, live *libvirtxml.Domain) error {
	is := func(n libvirtxml.DomainInterface) bool { return strings.EqualFold(domxml.NICMACOf(&n), set.Device.MAC) }
	k, l := slices.IndexFunc(inactive.Devices.Interfaces, is), slices.IndexFunc(live.Devices.Interfaces, is)
	if k < 0 || l < 0 {
		return nil
	}
	now := live.Devices.Interfaces[l]
	want, has := domxml.ReadNIC(inactive.Devices.Interfaces[k], fleet.NIC{}), domxml.ReadNIC(now, fleet.NIC{})
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
	return a.c.Do(ctx, func(l *golibvirt.Libvirt) error {
		return l.DomainUpdateDeviceFlags(ref, text, golibvirt.DomainDeviceModifyLive)
	})
}

// applyCPUSchedule applies the definition's shares and limit to the running guest. It sets only values that differ,
// because a host without the CPU controller of cgroups refuses every such call.
func (a *applyRun) applyCPUSchedule(ctx context.Context, ref golibvirt.Domain, kept, live *libvirtxml.Domain) error {
	want, has := domxml.CPUScheduleOf(kept, domxml.DefaultShares()), domxml.CPUScheduleOf(live, domxml.DefaultShares())
	var set []golibvirt.TypedParam
	if want.Shares != has.Shares {
		set = append(set, golibvirt.TypedParam{Field: golibvirt.DomainSchedulerCPUShares, Value: *golibvirt.NewTypedParamValueUllong(want.Shares)})
	}
	if want.Period != has.Period || want.Quota != has.Quota {
		set = append(set,
			golibvirt.TypedParam{Field: golibvirt.DomainSchedulerVCPUPeriod, Value: *golibvirt.NewTypedParamValueUllong(want.Period)},
			golibvirt.TypedParam{Field: golibvirt.DomainSchedulerVCPUQuota, Value: *golibvirt.NewTypedParamValueLlong(want.Quota)})
	}
	if len(set) == 0 {
		return nil
	}
	return a.c.Do(ctx, func(l *golibvirt.Libvirt) error {
		return l.DomainSetSchedulerParametersFlags(ref, set, uint32(golibvirt.DomainAffectLive))
	})
}

// updateLiveFilters gives the NICs of the running guest the filters of the persistent definition.
func (a *applyRun) updateLiveFilters(ctx context.Context, guest observedDomain, kept *libvirtxml.Domain) error {
	live, err := conn.ReadDefinition(ctx, a.c, guest.ref, 0)
	if err != nil {
		return err
	}
	for _, n := range live.Devices.Interfaces {
		k := slices.IndexFunc(kept.Devices.Interfaces, func(o libvirtxml.DomainInterface) bool { return domxml.NICMACOf(&o) == domxml.NICMACOf(&n) })
		if k < 0 || !domxml.HasAliasPrefix(n.Alias, domxml.NICAliasPrefix) && !a.in.Adopted {
			continue
		}
		now, want := domxml.FilterNameOf(&n), domxml.FilterNameOf(&kept.Devices.Interfaces[k])
		if now == want || !domxml.IsManagedFilter(now) && !domxml.IsManagedFilter(want) {
			continue
		}
		n.FilterRef = kept.Devices.Interfaces[k].FilterRef
		text, err := n.Marshal()
		if err != nil {
			return err
		}
		err = a.c.Do(ctx, func(l *golibvirt.Libvirt) error {
			return l.DomainUpdateDeviceFlags(guest.ref, text, golibvirt.DomainDeviceModifyLive)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
