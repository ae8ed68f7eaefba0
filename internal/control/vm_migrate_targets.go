package control

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"quantix/db"
	"quantix/internal/control/placing"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/placement"
	"quantix/internal/policy"
)

// MaxPlannedMigrations is the maximum number of VMs in one call of PlanMigrations.
const MaxPlannedMigrations = 100

// MigrationTargets returns the hosts and pools that the VM could migrate to. Each unsuitable target has its reasons.
func (c *Control) MigrationTargets(ctx context.Context, a fleet.Actor, id fleet.VMID) ([]fleet.MigrationTarget, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return nil, err
	}
	vm, err := c.GetVM(ctx, a, id)
	if err != nil {
		return nil, err
	}
	var out []fleet.MigrationTarget
	err = c.store.Tx(ctx, func(q *db.Queries) error {
		found, err := previewMigrationTargets(ctx, q, a, []fleet.VMView{vm}, false)
		if err != nil {
			return err
		}
		out = nil
		for _, t := range found[0] {
			// A host to which no disk is sent is listed once, without a pool. Every other host is listed once per assigned pool.
			if t.sendsDisks == (t.pool != "") {
				out = append(out, t.target)
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
	return c.planMigrations(ctx, a, vms)
}

// planMigrations returns the plans of the VMs, in the same order. It reads the hosts once for MaxPlannedMigrations VMs.
func (c *Control) planMigrations(ctx context.Context, a fleet.Actor, vms []fleet.VMView) (out []fleet.MigrationPlan, err error) {
	for some := range slices.Chunk(vms, MaxPlannedMigrations) {
		var plans []fleet.MigrationPlan
		err := c.store.Tx(ctx, func(q *db.Queries) error {
			plans = nil
			busy, err := vmsWithDiskJobs(ctx, q, some)
			if err != nil {
				return err
			}
			found, err := previewMigrationTargets(ctx, q, a, some, false)
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
func chooseMigrationHost(ctx context.Context, q *db.Queries, a fleet.Actor, vm fleet.VMView, overcommit bool) (fleet.MigrationTarget, error) {
	found, err := previewMigrationTargets(ctx, q, a, []fleet.VMView{vm}, overcommit)
	if err != nil {
		return fleet.MigrationTarget{}, err
	}
	hosts := bestPerHost(found[0])
	if best := bestTarget(vm, hosts); best != nil {
		return best.target, nil
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

// migrationTarget is a possible target host, with the destination pool of each disk.
type migrationTarget struct {
	target       fleet.MigrationTarget
	host         placement.Host
	pool         fleet.PoolID   // one pool for all sent disks; empty: each disk's own
	pools        []fleet.PoolID // by disk; empty: the disk is not sent
	stayingDisks []fleet.Volref
	sendsDisks   bool // some disk is sent
	hostFull     bool // the host's memory or processors do not suffice
}

// destinationPools are the pools to check as destinations of a migration.
type destinationPools struct {
	ids        []fleet.PoolID // empty ID: each disk's own pool
	overcommit bool           // allow overcommit
	preview    bool           // nothing is locked
}

// previewMigrationTargets checks all hosts and pools as targets of the VMs, without a lock.
func previewMigrationTargets(ctx context.Context, q *db.Queries, a fleet.Actor, vms []fleet.VMView, overcommit bool) ([][]migrationTarget, error) {
	pools, err := q.PoolsToGoTo(ctx)
	if err != nil {
		return nil, err
	}
	return migrationTargets(ctx, q, a, vms, "", destinationPools{ids: append([]fleet.PoolID{""}, pools...), overcommit: overcommit, preview: true})
}

// migrationTargets checks whether each VM can migrate to each other host, or to the named host. It checks a host once
// per ID in pools.ids: with all sent disks in that pool, or with each disk in its own pool if the ID is empty. A host
// that needs no disk, or lacks the pool, is checked only without a pool.
func migrationTargets(ctx context.Context, q *db.Queries, a fleet.Actor, vms []fleet.VMView, named fleet.HostID, pools destinationPools) ([][]migrationTarget, error) {
	ids := slices.Clone(pools.ids)
	sources := make([]string, len(vms))
	for i, vm := range vms {
		ids, sources[i] = append(ids, vm.Spec.Pools()...), string(vm.HostID)
	}
	slices.Sort(ids)
	ids = slices.DeleteFunc(slices.Compact(ids), func(id fleet.PoolID) bool { return id == "" })
	rows, err := q.PoolsForWork(ctx, store.ToStrings(ids))
	if err != nil {
		return nil, err
	}
	specs := map[fleet.PoolID]fleet.PoolSpec{}
	for _, p := range rows {
		specs[p.ID] = p.Spec
	}
	rates, err := readTransferRates(ctx, q, sources)
	if err != nil {
		return nil, err
	}
	hosts := map[string][]placement.Host{} // by CPU model
	for model, spec := range mergedSpecs(vms) {
		hosts[model], err = placing.Candidates{Host: named, Spec: spec, Pools: ids, Preview: pools.preview}.Read(ctx, q, a)
		if err != nil {
			return nil, err
		}
	}
	out := make([][]migrationTarget, len(vms))
	for i, vm := range vms {
		limited, err := placing.BandwidthLimitedNICs(ctx, q, vm.Spec.NICs)
		if err != nil {
			return nil, err
		}
		of := slices.Clone(hosts[vm.Spec.NamedCPUModel()])
		if err := placing.AddPlacementRules(ctx, q, vm.Meta, vm.Spec.Rules, of); err != nil {
			return nil, err
		}
		for _, h := range of {
			if h.ID == vm.HostID && named == "" {
				continue
			}
			h.Overcommit, h.BandwidthLimited = pools.overcommit, limited
			for _, pool := range pools.ids {
				if pool != "" && !h.Pools[pool].Assigned && named == "" {
					continue
				}
				t := checkMigrationTarget(vm, h, pool, specs)
				t.target.EstimateSeconds = rates.estimateSeconds(vm.HostID, h.ID, t.target.CopyBytes)
				if out[i] = append(out[i], t); !t.sendsDisks && pool == "" {
					break
				}
			}
		}
	}
	return out, nil
}

// mergedSpecs returns one spec for each CPU model of the VMs. It has the NICs, devices and media of all VMs with that
// model, so that one read of the hosts serves them all.
func mergedSpecs(vms []fleet.VMView) map[string]fleet.VMSpec {
	out := map[string]fleet.VMSpec{}
	for _, vm := range vms {
		model := vm.Spec.NamedCPUModel()
		spec, more := out[model]
		if bare := vm.Spec; !more {
			bare.Disks, spec = nil, bare
		} else {
			spec.NICs = slices.Concat(spec.NICs, vm.Spec.NICs)
			spec.HostDevices = slices.Concat(spec.HostDevices, vm.Spec.HostDevices)
			spec.Drives = slices.Concat(spec.Drives, mediaDrives(vm.Spec))
		}
		spec.Disks = nil
		out[model] = spec
	}
	return out
}

// mediaDrives returns the spec's media as drives.
func mediaDrives(spec fleet.VMSpec) (out []fleet.VMDrive) {
	for _, m := range spec.Media() {
		out = append(out, fleet.VMDrive{Medium: &m.Volref})
	}
	return out
}

// transferRates are measured rates between hosts, in bytes per second.
type transferRates map[[2]fleet.HostID]int64

func readTransferRates(ctx context.Context, q *db.Queries, sources []string) (transferRates, error) {
	rows, err := q.TransferRatesFrom(ctx, sources)
	out := transferRates{}
	sums := map[fleet.HostID][2]int64{}
	for _, r := range rows {
		out[[2]fleet.HostID{r.FromHost, r.ToHost}] = r.BytesPerSecond
		sum := sums[r.FromHost]
		sums[r.FromHost] = [2]int64{sum[0] + r.BytesPerSecond, sum[1] + 1}
	}
	for from, sum := range sums { // the mean rate, for hosts to which nothing was sent yet
		out[[2]fleet.HostID{from, ""}] = sum[0] / sum[1]
	}
	return out, err
}

// estimateSeconds returns how long the transfer would take, at least a second; 0: no rate is known.
func (r transferRates) estimateSeconds(from, to fleet.HostID, bytes int64) int64 {
	rate := cmp.Or(r[[2]fleet.HostID{from, to}], r[[2]fleet.HostID{from, ""}])
	if rate == 0 {
		return 0
	}
	return max(1, (bytes+rate-1)/rate)
}

func checkMigrationTarget(vm fleet.VMView, h placement.Host, pool fleet.PoolID, specs map[fleet.PoolID]fleet.PoolSpec) migrationTarget {
	t := migrationTarget{pool: pool, host: h, target: fleet.MigrationTarget{HostID: h.ID, HostName: h.Name, Method: fleet.MethodCold}}
	live := vm.MigratesLive()
	if live {
		t.target.Method, t.target.CopyBytes = fleet.MethodShared, int64(vm.Spec.MemoryMiB)<<20
	}
	spec := vm.Spec
	spec.Disks = nil
	var reasons []string
	if h.ID == vm.HostID {
		reasons = append(reasons, "The VM is on this host already.")
	}
	for i, d := range vm.Spec.Disks {
		on, kind := h.Pools[d.PoolID], specs[d.PoolID].Kind
		if specs[d.PoolID].Shared && on.Assigned && on.State == fleet.PoolActive {
			if t.pools, t.stayingDisks = append(t.pools, ""), append(t.stayingDisks, d.Ref()); live && kind.Info().QEMUClient {
				reasons = append(reasons, fmt.Sprintf("Disk %d is in a pool of the kind %s, which a live migration does not support. Shut the VM down for a cold migration.", i+1, kind.Info().Word))
			}
			continue
		}
		to := cmp.Or(pool, d.PoolID)
		t.sendsDisks = true
		if why := whyNotSent(vm, i, specs[d.PoolID], specs[to]); why != "" {
			reasons = append(reasons, why)
		}
		t.pools = append(t.pools, to)
		t.target.CopyBytes += vm.DiskBytes(d)
		spec.Disks = append(spec.Disks, fleet.Disk{PoolID: to, SizeBytes: vm.DiskBytes(d)})
	}
	if live && t.sendsDisks {
		t.target.Method = fleet.MethodCopy
	}
	if pool != "" && t.sendsDisks {
		t.target.PoolID, t.target.PoolName, t.target.FreeBytes = pool, h.Pools[pool].Name, max(0, h.Pools[pool].FreeBytes)
	}
	faults := append(placement.Faults(spec, h), placement.OvercommitFaults(spec, h)...)
	if f := placement.ReservedCPUFault(spec, h); f != nil {
		faults = append(faults, *f)
	}
	if len(reasons) == 0 && len(faults) > 0 {
		t.target.Room = faults[0].Overcommittable
		t.hostFull = t.target.Room && !strings.HasPrefix(faults[0].Field, "spec.disks")
	}
	for _, f := range faults {
		reasons = append(reasons, f.Message)
	}
	if t.target.Allowed = len(reasons) == 0; !t.target.Allowed {
		t.target.Reason, t.target.Reasons = reasons[0], reasons
	}
	return t
}

// whyNotSent returns why disk i of the VM cannot be sent from its pool to the other host's pool; empty: it can.
func whyNotSent(vm fleet.VMView, i int, from, to fleet.PoolSpec) string {
	files := func(spec fleet.PoolSpec) bool { kind := spec.Kind.Info(); return kind.FilePool && kind.CreatesVolumes }
	switch {
	case !files(to) || !files(from):
		return fmt.Sprintf("Disk %d can only be sent from a file pool to another file pool.", i+1)
	case vm.MigratesLive():
		return vm.WhyNotCopiedLive(i)
	}
	return ""
}
