package domxml

import (
	"slices"
	"testing"

	"libvirt.org/go/libvirtxml"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

func TestDevicesOfAdoptedVMAreNamedByFileTargetAndAddress(t *testing.T) {
	_, lookup := adoptionLookup()
	crm, web := fleet.Volref{PoolID: "pool-1", Volume: "crm.qcow2"}, fleet.Volref{PoolID: "pool-1", Volume: "web.qcow2"}
	nic := fleet.NIC{MAC: "52:54:00:00:00:07"}
	record := &hypervisor.AppliedRecord{
		Adopted: true, Removed: []string{"/srv/vm/old.qcow2", "52:54:00:00:00:09"}, Pools: map[fleet.PoolID]hypervisor.AppliedPool{"pool-1": {Path: "/srv/vm"}},
		Spec: fleet.VMSpec{Disks: []fleet.Disk{{PoolID: crm.PoolID, Volume: crm.Volume}, {PoolID: web.PoolID, Volume: web.Volume}}, NICs: []fleet.NIC{nic}},
	}
	disk := func(target, path, alias string) libvirtxml.DomainDisk {
		d := libvirtxml.DomainDisk{Target: &libvirtxml.DomainDiskTarget{Dev: target}, Source: &libvirtxml.DomainDiskSource{File: &libvirtxml.DomainDiskSourceFile{File: path}}}
		if alias != "" {
			d.Alias = &libvirtxml.DomainAlias{Name: alias}
		}
		return d
	}
	overlay := func(d libvirtxml.DomainDisk, base string) libvirtxml.DomainDisk {
		d.BackingStore = &libvirtxml.DomainDiskBackingStore{Source: &libvirtxml.DomainDiskSource{File: &libvirtxml.DomainDiskSourceFile{File: base}}}
		return d
	}
	kept := &libvirtxml.Domain{Devices: &libvirtxml.DomainDeviceList{Disks: []libvirtxml.DomainDisk{disk("vda", "/srv/vm/crm.qcow2", ""), disk("vdb", "/srv/vm/web.snap", DiskAlias(web))}}}
	names := NewDeviceNames(record, lookup, kept)
	for _, c := range []struct {
		what string
		disk libvirtxml.DomainDisk
		want string
	}{
		{"by its file", disk("sda", "/srv/vm/crm.qcow2", "virtio-disk0"), DiskAlias(crm)},
		{"by the target of an adopted disk", overlay(disk("vda", "/srv/vm/crm.overlay", "virtio-disk0"), "/srv/vm/crm.qcow2"), DiskAlias(crm)},
		{"by the target of a disk with an alias", overlay(disk("vdb", "/srv/vm/web.other", "virtio-disk1"), "/srv/vm/web.snap"), DiskAlias(web)},
		{"by the target and the recorded file", overlay(disk("vdb", "/srv/vm/web.other", "virtio-disk1"), "/srv/vm/web.qcow2"), DiskAlias(web)},
		{"of an administrator at the target of an adopted disk", disk("vda", "/srv/vm/mine.qcow2", "virtio-disk0"), "virtio-disk0"},
		{"of an administrator at the target of a disk with an alias", overlay(disk("vdb", "/srv/vm/mine.qcow2", "virtio-disk1"), "/srv/vm/base.qcow2"), "virtio-disk1"},
		{"removed by an edit", disk("vdc", "/srv/vm/old.qcow2", "virtio-disk2"), DiskAliasPrefix + "/srv/vm/old.qcow2"},
		{"of an administrator", disk("vdd", "/srv/vm/mine.qcow2", "virtio-disk3"), "virtio-disk3"},
		{"with an administrator's alias", disk("vda", "/srv/vm/crm.qcow2", "ua-mine"), "ua-mine"},
	} {
		if got := names.DiskName(&c.disk); got != c.want {
			t.Errorf("the disk %s is named %s, want %s", c.what, got, c.want)
		}
		if got := NewDeviceNames(&hypervisor.AppliedRecord{Spec: record.Spec}, lookup, kept).DiskName(&c.disk); got != AliasOf(c.disk.Alias) {
			t.Errorf("the disk %s of a VM that was not adopted is named %s", c.what, got)
		}
	}
	for mac, want := range map[string]string{"52:54:00:00:00:07": NICAlias(nic), "52:54:00:00:00:09": NICAliasPrefix + "52:54:00:00:00:09", "52:54:00:00:00:11": "net0"} {
		n := libvirtxml.DomainInterface{MAC: &libvirtxml.DomainInterfaceMAC{Address: mac}, Alias: &libvirtxml.DomainAlias{Name: "net0"}}
		if got := names.NICName(&n); got != want {
			t.Errorf("the NIC %s is named %s, want %s", mac, got, want)
		}
	}
	x := &libvirtxml.Domain{Devices: &libvirtxml.DomainDeviceList{Disks: []libvirtxml.DomainDisk{disk("vda", "/srv/vm/crm.qcow2", ""), disk("vdb", "/srv/vm/web.snap", DiskAlias(web))}}}
	if !names.NameDisks(x) || AliasOf(x.Devices.Disks[0].Alias) != DiskAlias(crm) || names.NameDisks(x) {
		t.Errorf("the disks are %+v, want the alias of the adopted one written once", x.Devices.Disks)
	}
	removed := names.RemovedDevices(x, hypervisor.DefinitionEdit{RemoveDisks: []fleet.Disk{{PoolID: web.PoolID, Volume: web.Volume}}, RemoveNICs: []fleet.NIC{{MAC: "52:54:00:00:00:07"}}})
	if !slices.Equal(removed, []string{"/srv/vm/old.qcow2", "52:54:00:00:00:09", "/srv/vm/web.snap", nic.MAC}) {
		t.Errorf("the removed devices are %q", removed)
	}
	if left := StillPresent([]string{"/srv/vm/crm.qcow2", "/srv/vm/gone.qcow2"}, x); len(left) != 1 || left[0] != "/srv/vm/crm.qcow2" {
		t.Errorf("the guest still has %q of the removed devices", left)
	}

	back := disk("vdc", "/srv/vm/old.qcow2", "virtio-disk2")
	kept.Devices.Disks = append(kept.Devices.Disks, disk("vdc", "/srv/vm/old.qcow2", ""))
	names = NewDeviceNames(record, lookup, kept)
	if got := names.DiskName(&back); got != "virtio-disk2" || slices.Contains(names.RemovedDevices(kept, hypervisor.DefinitionEdit{}), "/srv/vm/old.qcow2") {
		t.Errorf("the removed disk that somebody put back is named %s", got)
	}
	if r := record.WithRemoved(record.Removed, "1@2"); len(r.InRun("1@2").Removed) != 2 || len(r.InRun("1@3").Removed) != 0 || len(r.InRun("").Removed) != 0 {
		t.Errorf("the devices that an edit removed in another run count")
	}
}
