package placing

import (
	"context"
	"fmt"
	"slices"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/placement"
	"quantix/internal/policy"
)

// ResolveDeviceClasses names the device classes of a new or edited spec. It refuses classes that are not published to
// the project, unless the old spec has as many devices of the class. An unknown class and an unpublished one get the same
// text. It locks the classes, so that none is deleted until the transaction ends.
func ResolveDeviceClasses(
	ctx context.Context, q *db.Queries, a fleet.Actor, project fleet.ProjectID, old fleet.VMSpec, spec *fleet.VMSpec,
) error {
	if len(spec.DeviceClasses) == 0 {
		return nil
	}
	var checks fleet.Checks
	if n := len(spec.DeviceClasses); n > fleet.MaxHostDevices { // each takes a statement
		checks.Add("spec.deviceClasses", "A VM has at most %s.", fleet.CountWithUnit(fleet.MaxHostDevices, "host device"))
		return checks.Err()
	}
	if err := store.NameDeviceClasses(ctx, q, a, spec); err != nil {
		return err
	}
	order := make([]int, len(spec.DeviceClasses)) // all transactions lock classes in the same order
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		return compareClasses(spec.DeviceClasses[i], spec.DeviceClasses[j])
	})
	for _, i := range order {
		d := spec.DeviceClasses[i]
		had := slices.ContainsFunc(old.DeviceClasses, func(o fleet.VMDeviceClass) bool {
			return o.ClassID == d.ClassID && o.Number() >= d.Number()
		})
		if had {
			continue
		}
		row, err := q.ShareLockDeviceClass(ctx, db.ShareLockDeviceClassParams{ID: d.ClassID, ProjectID: string(project)})
		err = store.NotFoundError(err, "device class")
		if err != nil && fleet.CodeOf(err) != fleet.NotFound {
			return err
		}
		if err != nil || !row.Published && !policy.May(a, policy.InfraChange, "") {
			checks.Add(fmt.Sprintf("spec.deviceClasses[%d].classId", i),
				"There is no such device class, or none that is published to the project. Choose another device class.")
		}
	}
	return checks.Err()
}

func compareClasses(x, y fleet.VMDeviceClass) int {
	switch {
	case x.ClassID < y.ClassID:
		return -1
	case x.ClassID > y.ClassID:
		return 1
	}
	return 0
}

// readDevicesOfClasses returns the devices of the classes on the host, or on all hosts if host is empty. It takes the lock
// of hostDevices.
func readDevicesOfClasses(
	ctx context.Context, q *db.Queries, host fleet.HostID, vm fleet.VMID, classes []fleet.VMDeviceClass,
) ([]db.DevicesOfClassesRow, error) {
	if len(classes) == 0 {
		return nil, nil
	}
	if err := q.LockHostDevices(ctx); err != nil {
		return nil, err
	}
	ids := make([]string, len(classes))
	for i, d := range classes {
		ids[i] = string(d.ClassID)
	}
	return q.DevicesOfClasses(ctx, db.DevicesOfClassesParams{VM: string(vm), Host: string(host), Classes: ids})
}

// deviceClassesOnHosts returns the state of the device classes on each of the hosts, for the VM. Classes that the actor may
// not see have no name.
func (c Candidates) deviceClassesOnHosts(
	ctx context.Context, q *db.Queries, a fleet.Actor, hosts []db.CandidatesRow,
) (map[fleet.HostID]map[fleet.DeviceClassID]placement.DeviceClass, error) {
	spec := c.Spec
	rows, err := readDevicesOfClasses(ctx, q, c.Host, c.VM, spec.DeviceClasses)
	if err != nil || len(spec.DeviceClasses) == 0 {
		return nil, err
	}
	if err := store.NameDeviceClasses(ctx, q, a, &spec); err != nil {
		return nil, err
	}
	out := map[fleet.HostID]map[fleet.DeviceClassID]placement.DeviceClass{}
	for _, h := range hosts {
		out[h.ID] = map[fleet.DeviceClassID]placement.DeviceClass{}
		for _, d := range spec.DeviceClasses {
			out[h.ID][d.ClassID] = placement.DeviceClass{Name: d.ClassName}
		}
	}
	for _, r := range rows {
		on, known := out[r.HostID]
		if !known || !r.Reported {
			continue
		}
		class := on[r.ClassID]
		class.Devices++
		switch {
		case !r.Usable:
			class.Unusable++
		case r.Used >= r.Capacity:
			class.Used++
		}
		on[r.ClassID] = class
	}
	return out, nil
}

// AllocateDevices gives the VM devices of its device classes on the host, and frees surplus ones. Devices that the VM has
// already stay if no other VM has them. It returns a Conflict if the host has too few free devices.
// The VM's row must have the spec, and be on the host or have a migration to the host.
func AllocateDevices(ctx context.Context, q *db.Queries, vm fleet.VM, host fleet.HostID) error {
	missing, err := allocate(ctx, q, vm, host)
	if err == nil && missing != "" {
		return fleet.Errorf(fleet.Conflict, "The host has too few free devices of %s. Choose another host, or try again later.", missing)
	}
	return err
}

// ReallocateDevices works like AllocateDevices on the VM's host, if the VM's classes differ from those of the old spec.
func ReallocateDevices(ctx context.Context, q *db.Queries, old fleet.VMSpec, vm fleet.VM) error {
	if slices.Equal(old.WithoutClassNames().DeviceClasses, vm.Spec.WithoutClassNames().DeviceClasses) {
		return nil
	}
	return AllocateDevices(ctx, q, vm, vm.HostID)
}

// AllocateOnTarget reserves devices of the VM's classes on the target host of its migration. Those on the source host
// stay reserved until the VM belongs to the target host.
func AllocateOnTarget(ctx context.Context, q *db.Queries, vm fleet.VM, target fleet.HostID) error {
	if len(vm.Spec.DeviceClasses) == 0 {
		return nil
	}
	if err := q.DropOldAllocations(ctx, vm.ID); err != nil {
		return err
	}
	return AllocateDevices(ctx, q, vm, target)
}

// LockDevicesOf takes the lock of host devices if the spec has device classes. All transactions take it before that of a
// host's memory.
func LockDevicesOf(ctx context.Context, q *db.Queries, spec fleet.VMSpec) error {
	if len(spec.DeviceClasses) == 0 {
		return nil
	}
	return q.LockHostDevices(ctx)
}

// AllocateFreeDevices works like AllocateDevices, but accepts that the host has too few free devices.
func AllocateFreeDevices(ctx context.Context, q *db.Queries, vm fleet.VM, host fleet.HostID) error {
	_, err := allocate(ctx, q, vm, host)
	return err
}

// allocate returns the name of a class with too few free devices.
func allocate(ctx context.Context, q *db.Queries, vm fleet.VM, host fleet.HostID) (missing string, err error) {
	rows, err := readDevicesOfClasses(ctx, q, host, vm.ID, vm.Spec.DeviceClasses)
	if err != nil {
		return "", err
	}
	keep := []string{}
	for _, d := range vm.Spec.DeviceClasses {
		needs := d.Number()
		for _, mine := range []bool{true, false} {
			for _, r := range rows {
				if needs == 0 || r.ClassID != d.ClassID || r.Mine != mine || r.Used >= r.Capacity || !mine && (!r.Reported || !r.Usable) {
					continue
				}
				needs--
				keep = append(keep, r.Device)
				err := q.Allocate(ctx, db.AllocateParams{VMID: vm.ID, ClassID: r.ClassID, HostID: host, Device: r.Device})
				if err != nil {
					return "", err
				}
			}
		}
		if needs > 0 {
			missing = d.Text()
		}
	}
	return missing, q.Deallocate(ctx, db.DeallocateParams{VMID: vm.ID, HostID: host, Keep: keep})
}

// SpecWithDevices returns the VM's spec as its host gets it: with the allocated devices in place of the device classes.
func SpecWithDevices(ctx context.Context, q *db.Queries, vm fleet.VM) (fleet.VMSpec, error) {
	spec := vm.Spec
	if len(spec.DeviceClasses) == 0 {
		return spec, nil
	}
	rows, err := q.AllocatedDevices(ctx, vm.ID)
	spec.DeviceClasses, spec.HostDevices = nil, slices.Clone(spec.HostDevices)
	for _, r := range rows {
		spec.HostDevices = append(spec.HostDevices, fleet.VMHostDevice{HostID: r.HostID, Device: r.Device})
	}
	return spec, err
}

// WithoutAllocatedDevices returns the host's list of devices without those that the VM has of its device classes. It
// refuses if one of these is missing in the list.
func WithoutAllocatedDevices(
	ctx context.Context, q *db.Queries, vm fleet.VM, devices []fleet.VMHostDevice,
) ([]fleet.VMHostDevice, error) {
	if len(vm.Spec.DeviceClasses) == 0 {
		return devices, nil
	}
	rows, err := q.AllocatedDevices(ctx, vm.ID)
	if err != nil {
		return nil, err
	}
	out := slices.Clone(devices)
	for _, r := range rows {
		i := slices.IndexFunc(out, func(d fleet.VMHostDevice) bool { return d.Device == r.Device })
		if i < 0 {
			return nil, fleet.Errorf(fleet.Conflict, "A device of a device class was detached on the host. Reapply Quantix's definition, or remove the device class from the VM.")
		}
		out = slices.Delete(out, i, i+1)
	}
	return out, nil
}
