package placing

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"quantix/db"
	"quantix/internal/control/query"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/placement"
)

// Candidates selects the hosts that placement chooses among for a VM with the spec.
type Candidates struct {
	Host    fleet.HostID    // only this host; empty: all hosts
	Cluster fleet.ClusterID // only hosts of this cluster; empty: of all clusters
	Spec    fleet.VMSpec
	Pools   []fleet.PoolID // read and locked in addition to the spec's pools
	NewVM   bool           // without a CPU model, the VM gets the baseline of the host's cluster
	// Preview: the result is only shown. Neither are pools locked, nor is a spec refused whose volumes have jobs.
	Preview bool
	VM      fleet.VMID // its own devices of device classes count as free; empty: a new VM
}

// Read reads what placement needs to know about the hosts. It locks the pools, so that no host can release one until the
// transaction ends.
func (c Candidates) Read(ctx context.Context, q *db.Queries, a fleet.Actor) ([]placement.Host, error) {
	host, spec := c.Host, c.Spec
	ids := store.ToStrings(append(spec.Pools(), c.Pools...))
	slices.Sort(ids)
	ids = slices.Compact(ids)
	if !c.Preview {
		if err := q.LockPools(ctx, ids); err != nil {
			return nil, err
		}
		if err := checkVolumesIdle(ctx, q, spec); err != nil {
			return nil, err
		}
	}
	pools, err := q.PoolsForWork(ctx, ids)
	if err != nil {
		return nil, err
	}
	hidden, err := hiddenPools(ctx, q, a, ids)
	if err != nil {
		return nil, err
	}
	volumes, err := query.NamedVolumes(ctx, q, a, spec, pools)
	if err != nil {
		return nil, err
	}
	sharers, err := localVolumeSharers(ctx, q, spec, pools)
	if err != nil {
		return nil, err
	}
	useBaseline := c.NewVM && spec.CPU.Model == ""
	rows, err := q.Candidates(ctx, db.CandidatesParams{
		Pools: ids, Host: string(host), Cluster: string(c.Cluster), Model: spec.NamedCPUModel(), UseBaseline: useBaseline,
	})
	if err != nil {
		return nil, err
	}
	committed := map[fleet.HostID]db.CommittedRow{}
	sums, err := q.Committed(ctx, string(host))
	if err != nil {
		return nil, err
	}
	for _, sum := range sums {
		sum.Mib += committed[sum.HostID].Mib
		sum.Cpus += committed[sum.HostID].Cpus
		sum.DiscoveredMib += committed[sum.HostID].DiscoveredMib
		sum.DiscoveredCpus += committed[sum.HostID].DiscoveredCpus
		committed[sum.HostID] = sum
	}
	reserved, err := CPUReservations(ctx, q, host)
	if err != nil {
		return nil, err
	}
	pending, err := pendingDiskBytes(ctx, q, ids)
	if err != nil {
		return nil, err
	}
	room, err := readNICCapacity(ctx, q, host, spec.NICs)
	if err != nil {
		return nil, err
	}
	limited, err := BandwidthLimitedNICs(ctx, q, spec.NICs)
	if err != nil {
		return nil, err
	}
	devices, err := hostDevices(ctx, q, host, spec.HostDevices)
	if err != nil {
		return nil, err
	}
	classes, err := c.deviceClassesOnHosts(ctx, q, a, rows)
	if err != nil {
		return nil, err
	}
	hosts := make([]placement.Host, len(rows))
	for i, r := range rows {
		r.Spec.Labels = r.Labels // placement rules match those of agent.yaml, too
		h := placement.Host{
			ID: r.ID, Name: r.Name, Phase: store.HostPhase(fleet.NewReportTime(r.SeenAt, r.FreshFor), fleet.NewReportTime(r.LookedAt, r.FreshFor), store.ConnectedIfReported(r.Reported, r.Connected), r.Conflict, r.Now), Error: cmp.Or(r.Error, fleet.StaleInventoryError),
			Spec: r.Spec, Capacity: store.HostCapacity(r.Spec, r.Cluster.Spec, r.Processors, r.MemoryBytes), CommittedMiB: committed[r.ID].Mib, CommittedCPUs: committed[r.ID].Cpus, DiscoveredMiB: committed[r.ID].DiscoveredMib, DiscoveredCPUs: committed[r.ID].DiscoveredCpus, Networks: r.Networks, NICs: room[r.ID], Unsupported: map[string]string{},
			Pools: map[fleet.PoolID]placement.Pool{}, Volumes: map[fleet.Volref]fleet.Volume{}, SharedElsewhere: map[fleet.Volref]string{},
		}
		h.Lifecycle = fleet.LifecycleOf(h.Phase, r.Maintenance)
		h.AgentFields, h.Devices, h.DeviceClasses = r.VmFields, devices[r.ID], classes[r.ID]
		h.ReservedCPU, h.BandwidthLimited = reserved[r.ID], limited
		h.Cluster, h.CPUModel, h.MissingFeatures = store.ClusterFromRow(r.Cluster), spec.NamedCPUModel(), r.MissingFeatures
		if useBaseline {
			h.CPUModel = h.Cluster.Spec.CPUModel
		}
		var gaps []fleet.VMGap
		if err := json.Unmarshal(r.VmGaps, &gaps); err != nil {
			return nil, fmt.Errorf("read the VM settings that host %s does not support: %w", r.Name, err)
		}
		for _, g := range gaps {
			if g.Value != "" {
				g.Field += "=" + g.Value
			}
			h.Unsupported[g.Field] = g.Why
		}
		if err := json.Unmarshal(r.HugePages, &h.HugePages); err != nil {
			return nil, fmt.Errorf("read the huge pages of host %s: %w", r.Name, err)
		}
		for _, f := range r.Firmwares {
			h.Firmwares = append(h.Firmwares, fleet.Firmware(f))
		}
		if err := json.Unmarshal(r.Pools, &h.Pools); err != nil {
			return nil, fmt.Errorf("read the pools of host %s: %w", r.Name, err)
		}
		for _, p := range pools {
			if on := h.Pools[p.ID]; p.DeletedAt == nil {
				on.Name, on.FreeBytes = p.Name, on.FreeBytes-pending.bytesOnHost(p, r.ID)
				on.Hidden = slices.Contains(hidden, string(p.ID))
				h.Pools[p.ID] = on
			}
		}
		for _, v := range volumes {
			if v.Shared || v.Host == r.ID {
				h.Volumes[v.Ref] = v.Volume
			}
		}
		for ref, all := range sharers {
			if k := slices.IndexFunc(all, func(v db.VolumeSharersRow) bool { return v.HostID != r.ID }); k >= 0 {
				h.SharedElsewhere[ref] = all[k].Name
			}
		}
		hosts[i] = h
	}
	return hosts, nil
}

// hiddenPools returns the pools among these that the actor may not see. VMs of a project may have disks in them.
func hiddenPools(ctx context.Context, q *db.Queries, a fleet.Actor, pools []string) ([]string, error) {
	if store.SeesHosts(a) || len(pools) == 0 {
		return nil, nil
	}
	return q.PoolsUnpublished(ctx, db.PoolsUnpublishedParams{Ids: pools, Projects: store.VisibleProjects(a)})
}

// checkVolumesIdle refuses a spec that uses an existing volume while an unfinished job makes, changes or deletes the
// volume. The volumes' pools must be locked, so that no job is queued in between.
func checkVolumesIdle(ctx context.Context, q *db.Queries, spec fleet.VMSpec) error {
	var refs []fleet.Volref
	for _, d := range spec.Disks {
		if d.Image != nil {
			refs = append(refs, *d.Image)
		}
		if d.Existing {
			refs = append(refs, d.Ref())
		}
	}
	for _, m := range spec.Media() {
		if m.Kind != fleet.MediumFolder {
			refs = append(refs, m.Volref)
		}
	}
	works := map[fleet.PoolID][]db.VolumesAtWorkRow{}
	for _, ref := range refs {
		if _, read := works[ref.PoolID]; !read {
			rows, err := q.VolumesAtWork(ctx, string(ref.PoolID))
			if err != nil {
				return err
			}
			works[ref.PoolID] = rows
		}
		for _, w := range works[ref.PoolID] {
			about, _ := w.Subject.Volume()
			// Jobs of the kinds VolumeHash and VolumeRead do not conflict, because they only read the volume.
			if about == ref && w.Kind != fleet.VolumeHash && w.Kind != fleet.VolumeRead || w.Kind == fleet.VolumeRename && w.Source == ref.Volume {
				return fleet.Errorf(fleet.Conflict, "The volume %s is in use: %s. Wait until that task has ended, and try again.", ref.Volume, strings.ToLower(w.Kind.Info().Verb))
			}
		}
	}
	return nil
}

// localVolumeSharers returns the other VMs that share the spec's volumes in local pools, by volume. Placement needs
// them because such a volume exists on one host only.
func localVolumeSharers(ctx context.Context, q *db.Queries, spec fleet.VMSpec, pools []db.Pool) (map[fleet.Volref][]db.VolumeSharersRow, error) {
	out := map[fleet.Volref][]db.VolumeSharersRow{}
	for _, d := range spec.Disks {
		local := slices.ContainsFunc(pools, func(p db.Pool) bool { return p.ID == d.PoolID && !p.Spec.Shared })
		if !d.Shareable || !local {
			continue
		}
		all, err := q.VolumeSharers(ctx, db.VolumeSharersParams{PoolID: string(d.PoolID), Volume: d.Volume})
		if err != nil {
			return nil, err
		}
		out[d.Ref()] = all
	}
	return out, nil
}

// CPUReservations returns the CPU reservations on each host, or on the given one, in percent of one CPU.
func CPUReservations(ctx context.Context, q *db.Queries, host fleet.HostID) (map[fleet.HostID]int64, error) {
	out := map[fleet.HostID]int64{}
	rows, err := q.ReservedCPU(ctx, string(host))
	for _, r := range rows {
		out[fleet.HostID(r.HostID)] = r.Percent
	}
	return out, err
}

// pendingBytes is the space that disks and volumes will need whose creation has not ended, by pool and host.
type pendingBytes map[fleet.PoolID]map[fleet.HostID]int64

func pendingDiskBytes(ctx context.Context, q *db.Queries, pools []string) (pendingBytes, error) {
	out := pendingBytes{}
	if len(pools) == 0 {
		return out, nil
	}
	rows, err := q.DisksToCome(ctx, pools)
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		out.addBytes(fleet.PoolID(r.PoolID), r.HostID, r.Bytes)
	}
	volumes, err := q.VolumesToCome(ctx, pools)
	for _, r := range volumes {
		out.addBytes(fleet.PoolID(r.PoolID), r.HostID, r.Bytes)
	}
	return out, err
}

func (c pendingBytes) addBytes(id fleet.PoolID, host fleet.HostID, bytes int64) {
	if c[id] == nil {
		c[id] = map[fleet.HostID]int64{}
	}
	c[id][host] += bytes
}

// bytesOnHost returns the pending bytes of a pool on a host; for a shared pool, the pending bytes of all hosts.
func (c pendingBytes) bytesOnHost(p db.Pool, host fleet.HostID) int64 {
	if !p.Spec.Shared {
		return c[p.ID][host]
	}
	var n int64
	for _, bytes := range c[p.ID] {
		n += bytes
	}
	return n
}

// hostDevices returns which of the requested devices each host has. It takes a lock, so that no other transaction can
// assign a host device to a VM until the transaction ends.
func hostDevices(ctx context.Context, q *db.Queries, host fleet.HostID, requested []fleet.VMHostDevice) (map[fleet.HostID]map[string]placement.Device, error) {
	if len(requested) == 0 {
		return nil, nil
	}
	if err := q.LockHostDevices(ctx); err != nil {
		return nil, err
	}
	names := make([]string, len(requested))
	for i, d := range requested {
		names[i] = d.Device
	}
	rows, err := q.HostDevicesOn(ctx, db.HostDevicesOnParams{Host: string(host), Devices: names})
	out := map[fleet.HostID]map[string]placement.Device{}
	for _, r := range rows {
		if out[r.HostID] == nil {
			out[r.HostID] = map[string]placement.Device{}
		}
		out[r.HostID][r.Device] = placement.Device{
			VM: r.VM, NoIOMMUGroup: strings.HasPrefix(r.Device, "pci/") && r.Iommu == "", VMs: int(r.Vms), Max: int(r.Most), HostUse: r.Busy,
		}
	}
	return out, err
}

// FillDeviceHost returns the devices, with the given host filled in for each device without a host.
func FillDeviceHost(devices []fleet.VMHostDevice, host fleet.HostID) []fleet.VMHostDevice {
	out := slices.Clone(devices)
	for i := range out {
		out[i].HostID = cmp.Or(out[i].HostID, host)
	}
	return out
}
