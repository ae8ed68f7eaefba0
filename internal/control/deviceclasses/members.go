package deviceclasses

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/deviceclass"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// memberChange are the members to add and to remove.
type memberChange struct {
	added, removed []deviceclass.ClassMember
	names          []string // of the hosts of added and removed members, in this order
	gpu            bool     // all members are GPUs afterwards
}

// checkMembers compares the members of a class with the requested ones. It refuses devices that hosts do not report, that
// are in another class or are of another type than the others, and the removal of a member that a VM uses. was is the
// class before the change; empty: a new class.
func checkMembers(
	ctx context.Context, q *db.Queries, was db.DeviceClass, old []db.DevicesOfClassesRow, wanted []deviceclass.ClassMember,
) (memberChange, error) {
	var out memberChange
	var checks fleet.Checks
	for _, m := range old {
		key := deviceclass.ClassMember{HostID: m.HostID, Device: m.Device}
		switch {
		case slices.Contains(wanted, key):
		case m.Used > 0:
			checks.Add("members", "A VM uses %s of %s. Remove the device from the VM first.", m.Device, m.HostName)
		default:
			out.removed = append(out.removed, key)
			out.names = append(out.names, m.HostName)
		}
	}
	var hosts, devices []string
	for _, m := range wanted {
		hosts, devices = append(hosts, string(m.HostID)), append(devices, m.Device)
	}
	rows, err := q.MemberDevices(ctx, db.MemberDevicesParams{Hosts: hosts, Devices: devices})
	if err != nil {
		return out, err
	}
	reported := map[deviceclass.ClassMember]db.MemberDevicesRow{}
	for _, r := range rows {
		reported[deviceclass.ClassMember{HostID: r.HostID, Device: r.Device}] = r
	}
	var names []string
	gpus, others := 0, 0
	for i, m := range wanted {
		at := fmt.Sprintf("members[%d].device", i)
		r, known := reported[m]
		stays := r.ClassID != "" && r.ClassID == string(was.ID)
		switch {
		case !known:
			checks.Add(fmt.Sprintf("members[%d].hostId", i), "There is no such host.")
		case r.ClassID != "" && !stays:
			checks.Add(at, "%s of %s is in the device class %s already.", m.Device, r.HostName, r.ClassName)
		case !r.Reported && !stays:
			checks.Add(at, "%s reports no device %s. Choose a device that the host's page lists.", r.HostName, m.Device)
		case !stays:
			out.added = append(out.added, m)
			names = append(names, r.HostName)
		}
		switch {
		case !r.Reported && !strings.HasPrefix(m.Device, "mdev/"):
		case deviceclass.IsGPU(m.Device, r.PciClass):
			gpus++
		default:
			others++
		}
	}
	if gpus > 0 && others > 0 {
		checks.Add("members", "GPUs and other devices cannot be in one device class, because GPUs have a quota of their own. Create two classes.")
	}
	out.gpu, out.names = gpus > 0 || others == 0 && len(wanted) > 0 && was.Gpu, append(names, out.names...)
	return out, checks.Err()
}

// store writes the changed members.
func (m memberChange) store(ctx context.Context, q *db.Queries, id fleet.DeviceClassID) error {
	if len(m.removed) > 0 {
		hosts, devices := columns(m.removed)
		err := q.RemoveDeviceClassMembers(ctx, db.RemoveDeviceClassMembersParams{ClassID: id, Hosts: hosts, Devices: devices})
		if err != nil {
			return err
		}
	}
	if len(m.added) == 0 {
		return nil
	}
	hosts, devices := columns(m.added)
	return q.AddDeviceClassMembers(ctx, db.AddDeviceClassMembersParams{ClassID: id, Hosts: hosts, Devices: devices})
}

func columns(all []deviceclass.ClassMember) (hosts, devices []string) {
	for _, m := range all {
		hosts, devices = append(hosts, string(m.HostID)), append(devices, m.Device)
	}
	return hosts, devices
}

// text lists the first changes for the audit log; empty: none.
func (m memberChange) text() string {
	const most = 8
	var out []string
	for i, d := range slices.Concat(m.added, m.removed) {
		if len(out) == most {
			return strings.Join(out, ", ") + " and more"
		}
		verb := "+"
		if i >= len(m.added) {
			verb = "−"
		}
		out = append(out, verb+d.Device+" of "+m.names[i])
	}
	return strings.Join(out, ", ")
}

// MaxAvailable limits the devices that AvailableDevices returns.
const MaxAvailable = 100

// AvailableDevices returns devices that hosts report, that are in no class, and whose name or host contains the text.
func (d *DeviceClasses) AvailableDevices(ctx context.Context, a fleet.Actor, text string) ([]deviceclass.Available, error) {
	if err := policy.Check(a, policy.InfraSee, ""); err != nil {
		return nil, err
	}
	escaped := strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`).Replace(strings.TrimSpace(text))
	rows, err := d.store.AvailableDevices(ctx, db.AvailableDevicesParams{Pattern: "%" + escaped + "%", Most: MaxAvailable})
	out := make([]deviceclass.Available, len(rows))
	for i, r := range rows {
		out[i] = deviceclass.Available{
			ClassMember: deviceclass.ClassMember{HostID: r.HostID, Device: r.Device}, HostName: r.HostName, Name: r.Name,
			GPU: deviceclass.IsGPU(r.Device, r.PciClass), Usable: !strings.HasPrefix(r.Device, "pci/") || r.Iommu != "",
		}
	}
	return out, store.UserError(err)
}

// ClassesOfHost returns the device classes of a host's devices, by device.
func (d *DeviceClasses) ClassesOfHost(ctx context.Context, a fleet.Actor, id fleet.HostID) (map[string]deviceclass.DeviceClass, error) {
	if err := policy.Check(a, policy.InfraSee, ""); err != nil {
		return nil, err
	}
	if err := store.CheckID(id, "host"); err != nil {
		return nil, err
	}
	rows, err := d.store.DeviceClassesOnHost(ctx, id)
	out := map[string]deviceclass.DeviceClass{}
	for _, r := range rows {
		out[r.Device] = deviceclass.DeviceClass{ID: r.ID, Name: r.Name}
	}
	return out, store.UserError(err)
}

// AllocatedDevices returns the devices that placement chose for a VM, by device class. Only actors who see hosts may
// call it.
func (d *DeviceClasses) AllocatedDevices(
	ctx context.Context, a fleet.Actor, id fleet.VMID,
) (map[fleet.DeviceClassID][]string, error) {
	if err := policy.Check(a, policy.InfraSee, ""); err != nil {
		return nil, err
	}
	vm, err := store.GetVM(ctx, d.store.Queries, a, id)
	if err != nil {
		return nil, err
	}
	out := map[fleet.DeviceClassID][]string{}
	if len(vm.Spec.DeviceClasses) == 0 {
		return out, nil
	}
	rows, err := d.store.AllocatedDevices(ctx, id)
	for _, r := range rows {
		out[r.ClassID] = append(out[r.ClassID], r.Device)
	}
	return out, store.UserError(err)
}
