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
)

// migrationTarget is a possible target host, with the destination pool of each disk.
type migrationTarget struct {
	target       fleet.MigrationTarget
	host         placement.Host
	pool         fleet.PoolID   // one pool for all sent disks; empty: each disk's own
	pools        []fleet.PoolID // by disk; empty: the disk is not sent
	stayingDisks []fleet.Volref
	sendsDisks   bool // some disk is sent
}

// destinationPools are the pools to check as destinations of a migration.
type destinationPools struct {
	ids            []fleet.PoolID // empty ID: each disk's own pool
	overcommit     bool           // allow overcommit of hosts and pools
	overcommitHost bool           // allow overcommit of hosts
	preview        bool           // nothing is locked
}

// previewMigrationTargets checks all hosts and pools as targets of the VMs, without a lock.
func previewMigrationTargets(ctx context.Context, q *db.Queries, a fleet.Actor, vms []fleet.VMView, with destinationPools) ([][]migrationTarget, error) {
	pools, err := q.PoolsToGoTo(ctx)
	if err != nil {
		return nil, err
	}
	with.ids, with.preview = append([]fleet.PoolID{""}, pools...), true
	return migrationTargets(ctx, q, a, vms, "", with)
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
	agents, err := placing.ReadMigrationSupport(ctx, q, named, sources)
	if err != nil {
		return nil, err
	}
	rates, err := placing.ReadTransferRates(ctx, q, sources)
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
			h.Overcommit, h.OvercommitHost, h.BandwidthLimited = pools.overcommit, pools.overcommitHost, limited
			for _, pool := range pools.ids {
				if pool != "" && !h.Pools[pool].Assigned && named == "" {
					continue
				}
				t := checkMigrationTarget(vm, h, pool, specs, agents)
				t.target.EstimateSeconds = rates.EstimateSeconds(vm.HostID, h.ID, t.target.CopyBytes)
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
			spec.DeviceClasses = slices.Concat(spec.DeviceClasses, vm.Spec.DeviceClasses)
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

func checkMigrationTarget(vm fleet.VMView, h placement.Host, pool fleet.PoolID, specs map[fleet.PoolID]fleet.PoolSpec, agents placing.MigrationSupport) migrationTarget {
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
	} else {
		reasons = agents.WhyTooOld(vm, h.ID)
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
		t.addCopy(to, specs[to].Shared, vm.DiskBytes(d))
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
		t.target.HostFull = !slices.ContainsFunc(faults, func(f placement.Fault) bool { return !f.Overcommittable || strings.HasPrefix(f.Field, "spec.disks") })
	}
	for _, f := range faults {
		reasons = append(reasons, f.Message)
	}
	if t.target.Allowed = len(reasons) == 0; !t.target.Allowed {
		t.target.Reason, t.target.Reasons = reasons[0], reasons
	}
	return t
}

// delayChildForHypervisor returns a delayError if ctx belongs to a child of a bulk task and only a hypervisor that does
// not answer refuses one of the targets. A busy hypervisor answers again soon.
func delayChildForHypervisor(ctx context.Context, targets []migrationTarget) error {
	for _, t := range targets {
		if store.ChildTask(ctx) != "" && t.host.Phase == fleet.HostDegraded && !t.host.Lifecycle.InMaintenance() && len(t.target.Reasons) == 1 {
			return &delayError{reason: "waiting: " + t.target.Reason}
		}
	}
	return nil
}

// addCopy adds a copied disk to the pool's copies.
func (t *migrationTarget) addCopy(pool fleet.PoolID, shared bool, bytes int64) {
	i := slices.IndexFunc(t.target.Copies, func(d fleet.PoolCopy) bool { return d.PoolID == pool })
	switch on := t.host.Pools[pool]; {
	case i >= 0:
		t.target.Copies[i].Bytes += bytes
	case on.CapacityBytes > 0:
		t.target.Copies = append(t.target.Copies, fleet.PoolCopy{PoolID: pool, PoolName: on.Name, Bytes: bytes, FreeBytes: max(0, on.FreeBytes), Shared: shared})
	}
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
