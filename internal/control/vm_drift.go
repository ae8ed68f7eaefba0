package control

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"quantix/db"
	"quantix/internal/control/assign"
	"quantix/internal/control/macs"
	"quantix/internal/control/network"
	"quantix/internal/control/placing"
	"quantix/internal/control/store"
	"quantix/internal/drift"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// AcceptDrift writes the host's actual values of the given fields into the VM's spec. seen contains the values that the
// page showed; if the host now reports other values, the error is a Conflict. The change is checked like an edit by the
// actor, because a host's report grants no permissions.
func (c *Control) AcceptDrift(ctx context.Context, a fleet.Actor, id fleet.VMID, seen map[string]string) (vm fleet.VMView, job fleet.TaskID, err error) {
	if err := policy.Check(a, policy.VMChange, ""); err != nil {
		return vm, "", err
	}
	if err := store.CheckID(id, "VM"); err != nil {
		return vm, "", err
	}
	if len(seen) == 0 {
		var checks fleet.Checks
		checks.Add("fields", "Choose what to take over.")
		return vm, "", checks.Err()
	}
	err = c.store.Tx(ctx, func(q *db.Queries) error {
		old, err := store.LockVM(ctx, q, a, id, policy.VMChange)
		if err != nil {
			return err
		}
		if ok, why := old.Allows(fleet.ActAcceptDrift); !ok {
			return fleet.RefusalError(why)
		}
		vm = old
		if vm.Name, vm.Spec, err = acceptedSpec(old, seen); err != nil {
			return err
		}
		if _, ok := seen["hostDevices"]; ok {
			if vm.Spec.HostDevices, err = placing.WithoutAllocatedDevices(ctx, q, old.VM, vm.Spec.HostDevices); err != nil {
				return err
			}
			vm.Spec.HostDevices = placing.FillDeviceHost(vm.Spec.HostDevices, old.HostID)
		}
		typed := slices.Clone(vm.Spec.NICs)
		if _, err := network.ResolveNICs(ctx, q, vm.ProjectID, vm.Spec.NICs); err != nil {
			return err
		}
		if err := fillFilterSettings(ctx, q, a, vm.ProjectID, old.Spec.NICs, vm.Spec.NICs); err != nil {
			return err
		}
		var checks fleet.Checks
		fleet.CheckName(&checks, "name", vm.Name)
		vm.Spec.Check(&checks, "spec")
		if err := checks.Err(); err != nil {
			return err
		}
		if err := checkAcceptedSpec(old, vm); err != nil {
			return err
		}
		edit := vmEdit{old: old, vm: &vm, enteredNICs: typed, overcommit: policy.May(a, policy.InfraChange, "")}
		if err := edit.check(ctx, q, a, macs.Prefix(c.opts.MACPrefix)); err != nil {
			return err
		}
		if err := applyFirstBootEdit(ctx, q, old.VM, vm.VM); err != nil {
			return err
		}
		vm, job, err = applyVMChange(ctx, q, a, vmChange{vm: vm, action: "vm.accept-drift", detail: strings.Join(slices.Sorted(maps.Keys(seen)), ", ")})
		return err
	})
	vm, err = c.shownVM(ctx, a, vm, err)
	return vm, job, err
}

// acceptedSpec returns the VM's name and spec with the host's values of the fields in seen.
func acceptedSpec(vm fleet.VMView, seen map[string]string) (string, fleet.VMSpec, error) {
	stale := fleet.Errorf(fleet.Conflict, "The VM was changed on its host again meanwhile. Reload the page and check the new changes.")
	name, spec := vm.Name, vm.Spec
	for field, actual := range seen {
		i := slices.IndexFunc(vm.Status.Drift, func(d fleet.Drift) bool { return d.Field == field && d.Actual == actual })
		if i < 0 {
			return "", vm.Spec, stale
		}
		switch d := vm.Status.Drift[i]; {
		case d.Take == nil || field == "power":
			return "", vm.Spec, fleet.Errorf(fleet.Conflict, "The drift of %s cannot be accepted: Quantix has no such setting. Reapply Quantix's definition, or leave the drift.", field)
		case field == "name":
			if json.Unmarshal(d.Take, &name) != nil {
				return "", vm.Spec, invalidHostValueError(field)
			}
		default:
			f, ok := fleet.FieldByName(field)
			if !ok || f.Decode(&spec, d.Take) != nil {
				return "", vm.Spec, invalidHostValueError(field)
			}
		}
	}
	if _, ok := seen["nics"]; ok {
		for i := range spec.NICs {
			spec.NICs[i].NetworkID = "" // hosts know networks only by name
		}
	}
	return name, spec, nil
}

func invalidHostValueError(field string) error {
	return fleet.Errorf(fleet.Conflict, "The host's value of %s is not valid for a VM. Reapply Quantix's definition, or change the value on the host.", field)
}

// checkAcceptedSpec refuses to accept disks that are not in the VM's spec, and NICs without a MAC address.
func checkAcceptedSpec(old, vm fleet.VMView) error {
	var checks fleet.Checks
	for i, d := range vm.Spec.Disks {
		twice := slices.ContainsFunc(vm.Spec.Disks[:i], func(o fleet.Disk) bool { return o.Ref() == d.Ref() })
		if twice || !slices.ContainsFunc(old.Spec.Disks, func(o fleet.Disk) bool { return equalUneditableFields(o, d) }) {
			checks.Add(fmt.Sprintf("spec.disks[%d]", i), "A disk that was attached on the host is not defined in Quantix, so its drift cannot be accepted.")
		}
	}
	for i, n := range vm.Spec.NICs {
		if n.MAC == "" {
			checks.Add(fmt.Sprintf("spec.nics[%d].mac", i), "The drift of a NIC without an address cannot be accepted.")
		}
	}
	return checks.Err()
}

// equalUneditableFields reports whether two disks are equal except for editable fields.
func equalUneditableFields(a, b fleet.Disk) bool {
	for _, f := range fleet.DiskFields {
		f.Copy(&a, b)
	}
	return reflect.DeepEqual(a, b)
}

// Reapply asks the host to define the VM by its spec again, which undoes changes made outside Quantix: in the given
// fields, or in all if none is given. It also ends the ignoring of drift in these fields.
func (c *Control) Reapply(ctx context.Context, a fleet.Actor, id fleet.VMID, fields []string) (job fleet.Task, err error) {
	if err := policy.Check(a, policy.VMChange, ""); err != nil {
		return job, err
	}
	if err := store.CheckID(id, "VM"); err != nil {
		return job, err
	}
	err = c.store.Tx(ctx, func(q *db.Queries) error {
		vm, err := store.LockVM(ctx, q, a, id, policy.VMChange)
		if err != nil {
			return err
		}
		if ok, why := vm.Allows(fleet.ActReapply); !ok {
			return fleet.RefusalError(why)
		}
		fields := slices.Sorted(slices.Values(fields))
		for _, f := range fields {
			if drift.Find(vm.Status.Drift, f) == nil {
				return fleet.Errorf(fleet.Conflict, "The VM has no drift of %s any more. Reload the page.", f)
			}
		}
		if len(fields) > 0 && len(fields) < len(vm.Status.Drift) {
			if err := assign.CheckReapplies(ctx, q, vm.HostID, vm.HostName); err != nil {
				return err
			}
		}
		if job, err = queueVMJob(ctx, q, a, vm, fleet.VMReapply, fleet.JobArgs{Fields: fields}); err != nil {
			return err
		}
		if len(fields) == 0 {
			fields = drift.Fields(vm.Status.Drift)
		}
		if err := changeIgnoredVMDrift(ctx, q, id, func(ignored []fleet.Drift) ([]fleet.Drift, error) { return drift.Forget(ignored, fields), nil }); err != nil {
			return err
		}
		return store.Audit(ctx, q, a, "vm.reapply", fleet.SubjectVM(id), vm.Name, strings.Join(fields, ", "))
	})
	return store.RedactTask(a, job), err
}

// IgnoreDrift makes the drift of the given fields count no more, until the host's value of a field changes or a user
// changes the field. seen contains the value of each field that the page showed, or an empty one; if the host now
// reports another value, the error is a Conflict.
func (c *Control) IgnoreDrift(ctx context.Context, a fleet.Actor, id fleet.VMID, seen map[string]string) (fleet.VMView, error) {
	return c.changeIgnoredDrift(ctx, a, id, "vm.ignore-drift", slices.Sorted(maps.Keys(seen)), func(q *db.Queries, vm fleet.VMView, ignored []fleet.Drift) ([]fleet.Drift, error) {
		if ok, why := vm.Allows(fleet.ActIgnoreDrift); !ok {
			return nil, fleet.RefusalError(why)
		}
		if _, err := drift.Ignore(nil, vm.Status.Drift, seen); err != nil {
			return nil, err
		}
		// The values that the actor sees may lack details of the host; ignored are those that the host reports.
		full, err := store.GetVM(ctx, q, fleet.SystemActor, id)
		if err != nil {
			return nil, err
		}
		all := make(map[string]string, len(seen))
		for field := range seen {
			all[field] = ""
		}
		return drift.Ignore(ignored, full.Status.Drift, all)
	})
}

// ShowDrift makes ignored drift of the given fields count again.
func (c *Control) ShowDrift(ctx context.Context, a fleet.Actor, id fleet.VMID, fields []string) (fleet.VMView, error) {
	return c.changeIgnoredDrift(ctx, a, id, "vm.show-drift", slices.Sorted(slices.Values(fields)), func(_ *db.Queries, _ fleet.VMView, ignored []fleet.Drift) ([]fleet.Drift, error) {
		return drift.Forget(ignored, fields), nil
	})
}

// changeIgnoredDrift replaces the ignored drift of a VM by the result of change, with an audit line.
func (c *Control) changeIgnoredDrift(ctx context.Context, a fleet.Actor, id fleet.VMID, action string, fields []string, change func(*db.Queries, fleet.VMView, []fleet.Drift) ([]fleet.Drift, error)) (vm fleet.VMView, err error) {
	if err := policy.Check(a, policy.VMChange, ""); err != nil {
		return vm, err
	}
	if err := store.CheckID(id, "VM"); err != nil {
		return vm, err
	}
	if err := drift.CheckFields(fields); err != nil {
		return vm, err
	}
	err = c.store.Tx(ctx, func(q *db.Queries) error {
		was, err := store.LockVM(ctx, q, a, id, policy.VMChange)
		if err != nil {
			return err
		}
		if err := changeIgnoredVMDrift(ctx, q, id, func(ignored []fleet.Drift) ([]fleet.Drift, error) { return change(q, was, ignored) }); err != nil {
			return err
		}
		if vm, err = store.GetVM(ctx, q, a, id); err != nil {
			return err
		}
		return store.Audit(ctx, q, a, action, fleet.SubjectVM(id), vm.Name, strings.Join(fields, ", "))
	})
	return c.shownVM(ctx, a, vm, err)
}

// changeIgnoredVMDrift replaces the ignored drift of a locked VM by the result of change.
func changeIgnoredVMDrift(ctx context.Context, q *db.Queries, id fleet.VMID, change func([]fleet.Drift) ([]fleet.Drift, error)) error {
	ignored, err := q.IgnoredVMDrift(ctx, id)
	if err != nil {
		return err
	}
	next, err := change(ignored)
	if err != nil {
		return err
	}
	return q.SetIgnoredVMDrift(ctx, db.SetIgnoredVMDriftParams{ID: id, IgnoredDrift: next})
}
