package query

import (
	"cmp"
	"context"
	"path"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/control/store"
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
	// Published says that it was published for tenants; nil: it is not.
	Published *Published `json:"published,omitempty"`
	Unfit     string     `json:"unfit,omitempty"` // why it cannot be published, for those who could
	// Orphan says that nobody uses it: no domain of a host, no VM as people asked, no other volume and no tenant. Who else uses a LUN, its
	// target alone knows.
	Orphan bool `json:"orphan,omitempty"`
	// FetchUntil is when an export, which it is, is deleted by itself; nil: it is none.
	FetchUntil *time.Time          `json:"fetchUntil,omitempty"`
	Actions    []fleet.ActionState `json:"actions,omitempty"` // what can be asked of it, for those who may ask

	SeenAt *time.Time `json:"-"` // when a host that has it last looked

	held    fleet.VolumeInUse
	work    string       // what is done with it already
	busy    string       // the VM that runs with it
	drives  []domainOn   // in whose drives hosts say it is
	on      fleet.HostID // the only host whose word counts; empty: the pool is shared
	paths   []string     // where it is there
	users   []domainOn   // whose disk hosts say it is
	stoodOn []domainOn   // of users, those whose disk stands on it
}

// On is the only host whose word about the volume counts; empty: the pool is shared.
func (v VolumeOn) On() fleet.HostID { return v.on }

// domainOn is a domain as its host names it: of other hosts it says nothing.
type domainOn struct {
	host fleet.HostID
	id   fleet.VMID
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

	shares bool // it is a disk that other VMs may have, too
}

// PoolVolumes lists the volumes of a pool, by name. Who does not see all projects is shown what is published and the disks of
// VMs that it sees, and never other people's data.
func (b *Queries) PoolVolumes(ctx context.Context, a fleet.Actor, id fleet.PoolID) ([]VolumeOn, error) {
	pool, err := b.poolRow(ctx, a, id)
	if err != nil {
		return nil, err
	}
	var s statement
	s.and("a.pool_id = " + s.key(string(id)) + " AND a.status IS NOT NULL")
	cells, err := collect(ctx, b, `SELECT a.host_id, h.name, `+fresh+` AND a.said = 'active', a.status->'volumes'
		FROM assignments a JOIN hosts h ON h.id = a.host_id LEFT JOIN host_sessions s ON s.host_id = a.host_id`+s.conditions()+` ORDER BY h.name`, &s,
		func(row pgx.CollectableRow) (hostStatus, error) {
			x := hostStatus{pool: pool}
			err := row.Scan(&x.host, &x.hostName, &x.ready, &x.volumes)
			return x, err
		})
	if err != nil {
		return nil, err
	}
	volumes := mergeVolumes(cells)
	if !policy.May(a, policy.InfraChange, "") {
		return judged(ctx, b.store.Queries, a, volumes)
	}
	return withActions(ctx, b.store.Queries, a, pool, volumes)
}

// hostStatus is what one host says of a pool's volumes. ready: it is heard, and the pool is active there.
type hostStatus struct {
	pool     db.Pool
	host     fleet.HostID
	hostName string
	ready    bool
	seen     *time.Time // when a host that says so last looked
	volumes  []fleet.Volume
}

// judged are the volumes that the actor may know of, each with its owner and with what was published of it.
func judged(ctx context.Context, q *db.Queries, a fleet.Actor, volumes []VolumeOn) ([]VolumeOn, error) {
	published, err := publishedOf(ctx, q, volumes)
	if err != nil {
		return nil, err
	}
	for i := range volumes {
		published.stands(&volumes[i])
	}
	owners, err := ownersOf(ctx, q, volumes)
	if err != nil {
		return nil, err
	}
	shown := []VolumeOn{}
	for _, v := range volumes {
		owner, seen := owners.of(a, v)
		v.VM = owner
		published.mark(&v)
		if seen || v.offered(a) {
			shown = append(shown, volumeFor(a, v))
		}
	}
	return shown, nil
}

// volumeOn is a volume as one host reports it. Each host knows its own files; those of a shared pool are the same on all that have it.
func volumeOn(pool db.Pool, host fleet.HostID, v fleet.Volume) VolumeOn {
	out := VolumeOn{
		Volume: v, PoolID: pool.ID, PoolName: pool.Name, Shared: pool.Spec.Shared, Hosts: []HostRef{}, on: host, paths: []string{v.Path}, users: domainsOn(host, v.UsedBy), drives: domainsOn(host, v.InDrive), stoodOn: domainsOn(host, v.StoodOn),
	}
	if out.Shared {
		out.on, out.paths = "", append(out.paths, path.Join(pool.Spec.Path, v.Name))
	}
	return out
}

// mergeVolumes makes one line of a shared pool's volume, and one a host of a local pool's.
func mergeVolumes(cells []hostStatus) []VolumeOn {
	type key struct {
		pool fleet.PoolID
		host fleet.HostID
		name string
	}
	out, at := []VolumeOn{}, map[key]int{}
	for _, x := range cells {
		for _, v := range x.volumes {
			k := key{x.pool.ID, x.host, v.Name}
			if x.pool.Spec.Shared {
				k.host = ""
			}
			i, known := at[k]
			if !known {
				i, at[k] = len(out), len(out)
				out = append(out, volumeOn(x.pool, x.host, v))
			} else {
				out[i].alsoSaid(x.host, v)
			}
			out[i].SeenAt = newer(out[i].SeenAt, x.seen)
			if x.ready {
				out[i].Hosts = append(out[i].Hosts, HostRef{x.host, x.hostName})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b VolumeOn) int {
		return cmp.Or(cmp.Compare(a.PoolName, b.PoolName), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// alsoSaid adds what another host says about the file of a shared pool: all their words count together.
func (v *VolumeOn) alsoSaid(host fleet.HostID, said fleet.Volume) {
	v.Backing = cmp.Or(v.Backing, said.Backing)
	v.users = append(v.users, domainsOn(host, said.UsedBy)...)
	v.stoodOn = append(v.stoodOn, domainsOn(host, said.StoodOn)...)
	v.SHA256, v.Altered = cmp.Or(v.SHA256, said.SHA256), v.Altered || said.Altered
	v.StoodOn = united(v.StoodOn, said.StoodOn)
	v.drives = append(v.drives, domainsOn(host, said.InDrive)...)
	v.UsedBy, v.InDrive, v.BaseOf = united(v.UsedBy, said.UsedBy), united(v.InDrive, said.InDrive), united(v.BaseOf, said.BaseOf)
	if v.ModifiedAt = newer(v.ModifiedAt, said.ModifiedAt); len(v.UsedBy) > 0 {
		v.ModifiedAt = nil
	}
	if !slices.Contains(v.paths, said.Path) {
		v.paths = append(v.paths, said.Path)
	}
}

// united are the few that hosts name, each once.
func united[T cmp.Ordered](a, b []T) []T {
	if len(b) == 0 {
		return a
	}
	all := slices.Concat(a, b)
	slices.Sort(all)
	all = slices.Compact(all)
	return all[:min(len(all), fleet.MaxUsers)]
}

func newer(a, b *time.Time) *time.Time {
	if a == nil || b != nil && b.After(*a) {
		return b
	}
	return a
}

func domainsOn(host fleet.HostID, ids []fleet.VMID) []domainOn {
	domains := make([]domainOn, len(ids))
	for i, id := range ids {
		domains[i] = domainOn{host, id}
	}
	return domains
}

// owners tells whose disks volumes are: VMs of Quantix by pool and name, all VMs by what their hosts say of files, and discovered
// ones by path, on their own host or, where the pool is shared, on any that has it.
type owners struct {
	vms   map[fleet.Volref]db.VolumeOwnersRow
	users map[domainOn]db.DomainsNamedRow
	found map[file]db.DiscoveredDisksRow
}

// file is a path on a host that has the pool; on all that have it where host is empty.
type file struct {
	pool fleet.PoolID
	host fleet.HostID
	path string
}

func ownersOf(ctx context.Context, q *db.Queries, volumes []VolumeOn) (owners, error) {
	o := owners{map[fleet.Volref]db.VolumeOwnersRow{}, map[domainOn]db.DomainsNamedRow{}, map[file]db.DiscoveredDisksRow{}}
	var ask db.VolumeOwnersParams
	var domains, paths []string
	for _, v := range volumes {
		paths = append(paths, v.paths...)
		ask.Pools, ask.Volumes = append(ask.Pools, string(v.PoolID)), append(ask.Volumes, v.Name)
		for _, u := range v.users {
			domains = append(domains, string(u.id))
		}
	}
	if len(volumes) == 0 {
		return o, nil
	}
	vms, err := q.VolumeOwners(ctx, ask)
	if err != nil {
		return o, store.Err(err)
	}
	users, err := q.DomainsNamed(ctx, domains)
	if err != nil {
		return o, store.Err(err)
	}
	found, err := q.DiscoveredDisks(ctx, db.DiscoveredDisksParams{Pools: slices.Compact(slices.Sorted(slices.Values(ask.Pools))), Paths: paths})
	if err != nil {
		return o, store.Err(err)
	}
	for _, r := range vms {
		o.vms[fleet.Volref{PoolID: fleet.PoolID(r.PoolID), Volume: r.Volume}] = r
	}
	for _, r := range users {
		o.users[domainOn{r.HostID, r.ID}] = r
	}
	for _, r := range found {
		o.found[file{fleet.PoolID(r.PoolID), r.HostID, r.Path}], o.found[file{fleet.PoolID(r.PoolID), "", r.Path}] = r, r
	}
	return o, nil
}

// of returns the VM whose disk the volume is (nil: of none), and whether the actor may know that.
func (o owners) of(a fleet.Actor, v VolumeOn) (owner *VMRef, seen bool) {
	everything := policy.AllProjects(a)
	if r, ok := o.vms[fleet.Volref{PoolID: v.PoolID, Volume: v.Name}]; ok {
		return &VMRef{ID: r.ID, Name: r.Name, shares: r.Shares}, everything || policy.May(a, policy.VMSee, r.ProjectID)
	}
	if len(v.users) > 0 {
		u := v.users[0]
		switch r, ok := o.users[u]; {
		case !ok: // the host has not reported the domain itself yet
			return &VMRef{ID: u.id, Name: string(u.id), HostID: u.host}, everything
		case r.Found:
			return &VMRef{ID: r.ID, Name: r.Name, HostID: r.HostID}, everything
		default:
			return &VMRef{ID: r.ID, Name: r.Name}, everything || policy.May(a, policy.VMSee, r.ProjectID)
		}
	}
	for _, at := range v.paths {
		if r, ok := o.found[file{v.PoolID, v.on, at}]; ok && at != "" {
			return &VMRef{ID: r.ID, Name: r.Name, HostID: r.HostID}, everything
		}
	}
	return nil, everything
}
