package control

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"quantix/db"
	"quantix/internal/control/query"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/placement"
	"quantix/internal/policy"
)

// MaxPlannedMigrations is the maximum number of VMs in one call of PlanMigrations.
const MaxPlannedMigrations = 100

// MigrationTargets returns the hosts and pools that the VM could migrate to. Each unsuitable target has its reasons. If the
// VM itself cannot migrate now, each target has that reason first.
func (c *Control) MigrationTargets(ctx context.Context, a fleet.Actor, id fleet.VMID) ([]fleet.MigrationTarget, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return nil, err
	}
	vm, err := query.VMWithPools(ctx, c.Queries, a, id)
	if err != nil {
		return nil, err
	}
	var out []fleet.MigrationTarget
	err = c.store.Tx(ctx, func(q *db.Queries) error {
		vms := []fleet.VMView{vm}
		busy, err := vmsWithDiskJobs(ctx, q, vms)
		if err != nil {
			return err
		}
		found, err := previewMigrationTargets(ctx, q, a, vms, destinationPools{})
		if err != nil {
			return err
		}
		_, why := vm.AllowsMigration(nil, nil)
		out = nil
		for _, t := range found[0] {
			// A host to which no disk is sent is listed once, without a pool. Every other host is listed once per assigned pool.
			if t.sendsDisks == (t.pool != "") {
				out = append(out, t.target.WithReason(cmp.Or(why, busy[vm.ID])))
			}
		}
		return nil
	})
	slices.SortStableFunc(out, func(a, b fleet.MigrationTarget) int {
		return cmp.Or(strings.Compare(a.HostName, b.HostName), strings.Compare(a.PoolName, b.PoolName))
	})
	return out, err
}

// PlanMigrations returns, for each of the VMs that the actor sees, every other host with the reasons against it, the
// method, and the expected duration. It changes nothing.
func (c *Control) PlanMigrations(ctx context.Context, a fleet.Actor, ids []fleet.VMID) ([]fleet.MigrationPlan, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return nil, err
	}
	if len(ids) == 0 || len(ids) > MaxPlannedMigrations {
		return nil, fleet.Errorf(fleet.Malformed, "Name 1 to %d VMs.", MaxPlannedMigrations)
	}
	for _, id := range ids {
		if err := store.CheckID(id, "VM"); err != nil {
			return nil, err
		}
	}
	vms, err := c.VMsByID(ctx, a, ids)
	if err != nil {
		return nil, err
	}
	return c.planMigrations(ctx, a, vms, false)
}

// planMigrations returns the plans of the VMs, in the same order. It reads the hosts once for MaxPlannedMigrations VMs.
func (c *Control) planMigrations(ctx context.Context, a fleet.Actor, vms []fleet.VMView, overcommitHost bool) (out []fleet.MigrationPlan, err error) {
	for some := range slices.Chunk(vms, MaxPlannedMigrations) {
		var plans []fleet.MigrationPlan
		err := c.store.Tx(ctx, func(q *db.Queries) error {
			plans = nil
			busy, err := vmsWithDiskJobs(ctx, q, some)
			if err != nil {
				return err
			}
			found, err := previewMigrationTargets(ctx, q, a, some, destinationPools{overcommitHost: overcommitHost})
			for i, vm := range some {
				if err != nil {
					break
				}
				_, why := vm.AllowsMigration(nil, nil)
				plans = append(plans, planOf(vm, cmp.Or(why, busy[vm.ID]), found[i]))
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		out = append(out, plans...)
	}
	return out, nil
}

// vmsWithDiskJobs returns why VMs with an unfinished migration, or with a disk migration, cannot migrate now.
func vmsWithDiskJobs(ctx context.Context, q *db.Queries, vms []fleet.VMView) (map[fleet.VMID]string, error) {
	subjects := make([]string, len(vms))
	for i, vm := range vms {
		subjects[i] = string(fleet.SubjectVM(vm.ID))
	}
	rows, err := q.MigratingAmong(ctx, subjects)
	out := map[fleet.VMID]string{}
	for _, r := range rows {
		_, id := r.Subject.ResourceAndID()
		out[fleet.VMID(id)] = "A disk of the VM is being moved. Wait for that task, or cancel it."
		if r.Kind == fleet.VMMigrate {
			out[fleet.VMID(id)] = "The VM is already migrating. Wait for that task, or cancel it."
		}
	}
	return out, err
}

// planOf reduces the targets to the best one of each host. why is the reason why the VM cannot migrate at all.
func planOf(vm fleet.VMView, why string, all []migrationTarget) fleet.MigrationPlan {
	out := fleet.MigrationPlan{VMID: vm.ID, Name: vm.Name, HostID: vm.HostID, HostName: vm.HostName, Phase: vm.Phase, Reason: why, Targets: []fleet.MigrationTarget{}}
	hosts := bestPerHost(all)
	for _, t := range hosts {
		out.Targets = append(out.Targets, t.target.WithReason(why))
	}
	if best := bestTarget(vm, hosts); why == "" && best != nil {
		out.Best = &best.target
	}
	slices.SortStableFunc(out.Targets, func(a, b fleet.MigrationTarget) int {
		return cmp.Or(compareBool(b.Allowed, a.Allowed), strings.Compare(a.HostName, b.HostName))
	})
	return out
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// bestPerHost returns one target of each host: a suitable one, with the disks in their own pools or else in the pool
// with the most free space.
func bestPerHost(all []migrationTarget) []*migrationTarget {
	var out []*migrationTarget
	for i := range all {
		t := &all[i]
		k := slices.IndexFunc(out, func(o *migrationTarget) bool { return o.target.HostID == t.target.HostID })
		switch {
		case k < 0:
			out = append(out, t)
		case t.betterThan(out[k]):
			out[k] = t
		}
	}
	return out
}

func (t *migrationTarget) betterThan(o *migrationTarget) bool {
	return cmp.Or(compareBool(t.target.Allowed, o.target.Allowed), compareBool(t.pool == "", o.pool == ""), cmp.Compare(t.target.FreeBytes, o.target.FreeBytes)) > 0
}

// bestTarget returns the target that a migration without a named host chooses: one without disks to copy, else one
// with, and among these the one that placement prefers. It is nil if no target is suitable.
func bestTarget(vm fleet.VMView, hosts []*migrationTarget) *migrationTarget {
	bare := vm.Spec
	bare.Disks = nil
	for _, copies := range []bool{false, true} {
		var suitable []placement.Host
		for _, t := range hosts {
			if t.target.Allowed && t.sendsDisks == copies {
				suitable = append(suitable, t.host)
			}
		}
		if choice := placement.Place(bare, suitable); choice.Host != nil {
			return hosts[slices.IndexFunc(hosts, func(t *migrationTarget) bool { return t.target.HostID == choice.Host.ID })]
		}
	}
	return nil
}

// chooseMigrationHost returns the best target of the VM. If there is none, the error has the reason of each host.
func chooseMigrationHost(ctx context.Context, q *db.Queries, a fleet.Actor, vm fleet.VMView, with destinationPools) (fleet.MigrationTarget, error) {
	found, err := previewMigrationTargets(ctx, q, a, []fleet.VMView{vm}, with)
	if err != nil {
		return fleet.MigrationTarget{}, err
	}
	hosts := bestPerHost(found[0])
	if best := bestTarget(vm, hosts); best != nil {
		return best.target, nil
	}
	if err := delayChildForHypervisor(ctx, found[0]); err != nil {
		return fleet.MigrationTarget{}, err
	}
	choice := placement.Choice{}
	for _, t := range hosts {
		choice.Refused = append(choice.Refused, placement.Refusal{HostName: t.target.HostName, Fault: placement.Fault{Message: t.target.Reason}})
	}
	slices.SortFunc(choice.Refused, func(a, b placement.Refusal) int { return strings.Compare(a.HostName, b.HostName) })
	var checks fleet.Checks
	if checks.Add("hostId", "%s", choice.RefusalText(3)); len(hosts) == 0 {
		checks = fleet.Checks{}
		checks.Add("hostId", "There is no other host yet. Add one first.")
	}
	return fleet.MigrationTarget{}, checks.Err()
}
