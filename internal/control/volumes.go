package control

import (
	"cmp"
	"context"
	"path"
	"regexp"
	"slices"

	"quantix/db"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// VolumeOn is a volume of a pool with the hosts that have it and the VM whose disk it is.
type VolumeOn struct {
	fleet.Volume
	PoolID   fleet.PoolID `json:"poolId"`
	PoolName string       `json:"poolName"`
	Shared   bool         `json:"shared"`       // of the pool: then one line stands for all hosts
	Hosts    []HostRef    `json:"hosts"`        // hosts that are heard, have the pool active and report the volume
	VM       *VMRef       `json:"vm,omitempty"` // whose disk it is

	on    fleet.HostID // the only host whose word counts; empty: the pool is shared
	paths []string     // where it is there
}

// HostRef names a host.
type HostRef struct {
	ID   fleet.HostID `json:"id"`
	Name string       `json:"name"`
}

// VMRef names a VM.
type VMRef struct {
	ID     fleet.VMID   `json:"id"`
	Name   string       `json:"name"`
	HostID fleet.HostID `json:"hostId,omitempty"` // set: a discovered VM of that host
}

// ownDisk is the form of the names that the portal gives to disks. What bears it was some VM's data, also when that VM is gone.
var ownDisk = regexp.MustCompile(`-[0-9a-f]{12}-[0-9]+\.qcow2$`)

// PoolVolumes lists the volumes of a pool, by name. Who does not see all projects is shown images, ISOs and the disks of
// VMs that it sees, and never other people's data.
func (c *Control) PoolVolumes(ctx context.Context, a fleet.Actor, id fleet.PoolID) ([]VolumeOn, error) {
	if _, err := c.GetPool(ctx, a, id); err != nil {
		return nil, err
	}
	var s statement
	s.and("p.id = " + s.arg(string(id)))
	return c.volumes(ctx, a, s, func(VolumeOn) bool { return true })
}

// Images lists the volumes that disks can be cloned from: of no VM, self-contained, on a host that is heard.
func (c *Control) Images(ctx context.Context, a fleet.Actor) ([]VolumeOn, error) {
	return c.offered(ctx, a, fleet.Volume.IsImage)
}

// ISOs lists the volumes that can be put into a CD-ROM drive.
func (c *Control) ISOs(ctx context.Context, a fleet.Actor) ([]VolumeOn, error) {
	return c.offered(ctx, a, fleet.Volume.IsISO)
}

func (c *Control) offered(ctx context.Context, a fleet.Actor, fits func(fleet.Volume) bool) ([]VolumeOn, error) {
	if err := policy.Check(a, policy.StorageSee, ""); err != nil {
		return nil, err
	}
	var s statement
	s.and("p.deleted_at IS NULL AND ph.assigned")
	all, err := c.volumes(ctx, a, s, func(v VolumeOn) bool { return len(v.Hosts) > 0 && fits(v.Volume) && !ownDisk.MatchString(v.Name) })
	return slices.DeleteFunc(all, func(v VolumeOn) bool { return v.VM != nil }), err
}

// volumes reads and merges the volumes of the pools that s asks for, keeps those wanted, and names their VMs.
func (c *Control) volumes(ctx context.Context, a fleet.Actor, s statement, want func(VolumeOn) bool) ([]VolumeOn, error) {
	cells, err := c.cells(ctx, "pools", "p.name, p.id", s, true)
	if err != nil {
		return nil, err
	}
	merged := slices.DeleteFunc(mergeVolumes(cells), func(v VolumeOn) bool { return !want(v) })
	owners, err := ownersOf(ctx, c.q, merged)
	if err != nil {
		return nil, err
	}
	shown := merged[:0]
	for _, v := range merged {
		if owner, seen := owners.of(a, v); seen {
			v.VM = owner
			shown = append(shown, volumeFor(a, v))
		}
	}
	return shown, nil
}

// volumeOn is a volume as one host reports it. Each host knows its own files; those of a shared pool are the same on all that have it.
func volumeOn(pool db.Pool, host fleet.HostID, v fleet.Volume) VolumeOn {
	out := VolumeOn{
		Volume: v, PoolID: pool.ID, PoolName: pool.Name, Shared: pool.Spec.Shared, Hosts: []HostRef{}, on: host, paths: []string{v.Path},
	}
	if out.Shared {
		out.on, out.paths = "", append(out.paths, path.Join(pool.Spec.Path, v.Name))
	}
	return out
}

// mergeVolumes makes one line of a shared pool's volume, and one a host of a local pool's.
func mergeVolumes(cells []cell) []VolumeOn {
	type key struct {
		pool fleet.PoolID
		host fleet.HostID
		name string
	}
	out, at := []VolumeOn{}, map[key]int{}
	for _, x := range cells {
		if x.status == nil {
			continue
		}
		ready := fleet.Fresh(x.seen, x.now) && x.status.State == fleet.PoolActive
		for _, v := range x.status.Volumes {
			k := key{x.pool.ID, x.host, v.Name}
			if x.pool.Spec.Shared {
				k.host = ""
			}
			i, known := at[k]
			if !known {
				i, at[k] = len(out), len(out)
				out = append(out, volumeOn(x.pool, x.host, v))
			}
			if !slices.Contains(out[i].paths, v.Path) {
				out[i].paths = append(out[i].paths, v.Path)
			}
			if ready {
				out[i].Hosts = append(out[i].Hosts, HostRef{x.host, x.hostName})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b VolumeOn) int {
		return cmp.Or(cmp.Compare(a.PoolName, b.PoolName), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// owners tells whose disks volumes are: VMs of Quantix by pool and name, discovered ones by path, on their own host or, where the
// pool is shared, on any that has it.
type owners struct {
	vms   map[fleet.Volref]db.VolumeOwnersRow
	found map[file]db.FoundDisksRow
}

// file is a path on a host that has the pool; on all that have it where host is empty.
type file struct {
	pool fleet.PoolID
	host fleet.HostID
	path string
}

func ownersOf(ctx context.Context, q *db.Queries, volumes []VolumeOn) (owners, error) {
	o := owners{map[fleet.Volref]db.VolumeOwnersRow{}, map[file]db.FoundDisksRow{}}
	var ask db.VolumeOwnersParams
	for _, v := range volumes {
		ask.Pools, ask.Volumes = append(ask.Pools, string(v.PoolID)), append(ask.Volumes, v.Name)
	}
	if len(volumes) == 0 {
		return o, nil
	}
	vms, err := q.VolumeOwners(ctx, ask)
	if err != nil {
		return o, dbError(err)
	}
	found, err := q.FoundDisks(ctx, slices.Compact(slices.Sorted(slices.Values(ask.Pools))))
	if err != nil {
		return o, dbError(err)
	}
	for _, r := range vms {
		o.vms[fleet.Volref{PoolID: fleet.PoolID(r.PoolID), Volume: r.Volume}] = r
	}
	for _, r := range found {
		o.found[file{r.PoolID, r.HostID, r.Path}], o.found[file{r.PoolID, "", r.Path}] = r, r
	}
	return o, nil
}

// of returns the VM whose disk the volume is (nil: of none), and whether the actor may know of the volume at all.
func (o owners) of(a fleet.Actor, v VolumeOn) (owner *VMRef, seen bool) {
	everything := policy.AllProjects(a)
	if r, ok := o.vms[fleet.Volref{PoolID: v.PoolID, Volume: v.Name}]; ok {
		return &VMRef{ID: r.ID, Name: r.Name}, everything || policy.May(a, policy.VMSee, r.ProjectID)
	}
	for _, at := range v.paths {
		if r, ok := o.found[file{v.PoolID, v.on, at}]; ok && at != "" && !v.IsISO() {
			return &VMRef{ID: r.ID, Name: r.Name, HostID: r.HostID}, everything
		}
	}
	return nil, everything || (v.IsImage() || v.IsISO()) && !ownDisk.MatchString(v.Name)
}
