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

// VolumeOn is a volume as hosts report it, with these hosts and the VM that has the volume as a disk.
type VolumeOn struct {
	fleet.Volume
	PoolID   fleet.PoolID `json:"poolId"`
	PoolName string       `json:"poolName"`
	Shared   bool         `json:"shared"`       // whether the pool is shared; one entry then represents all hosts
	Hosts    []HostRef    `json:"hosts"`        // online hosts with the pool active that report the volume
	VM       *VMRef       `json:"vm,omitempty"` // VM whose disk the volume is
	// Published is the image published from the volume; nil if there is none.
	Published *Published `json:"published,omitempty"`
	// Unfit is the reason why the volume cannot be published; empty: it can, or the actor may not publish volumes.
	Unfit string `json:"unfit,omitempty"`
	// Orphan is set if nothing uses the volume: no domain on a host, no VM spec, no other volume and no image. It is never
	// set for LUNs, which computers outside Quantix may use.
	Orphan bool `json:"orphan,omitempty"`
	// FetchUntil is the time at which a VM export is deleted automatically; nil for other volumes.
	FetchUntil *time.Time          `json:"fetchUntil,omitempty"`
	Actions    []fleet.ActionState `json:"actions,omitempty"` // actions for actors with permission

	SeenAt *time.Time `json:"-"` // last inventory of a host that has the volume

	inUse          fleet.VolumeUsers
	runningWork    string       // running operation on the volume
	runningVM      string       // running VM that uses the volume
	driveDomains   []domainKey  // domains with the volume in a CD-ROM drive, by host report
	hostID         fleet.HostID // host of a local pool's volume; empty for a shared pool
	paths          []string     // paths on the hosts
	diskDomains    []domainKey  // domains that use the volume as a disk, by host report
	overlayDomains []domainKey  // users that have the volume only as backing file
}

// LocalHost returns the host of a volume in a local pool; empty: the pool is shared.
func (v VolumeOn) LocalHost() fleet.HostID { return v.hostID }

// domainKey identifies a domain by host and UUID, because two hosts may have domains with the same UUID.
type domainKey struct {
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
	HostID fleet.HostID `json:"hostId,omitempty"` // set for an unmanaged VM: its host

	diskShareable bool // the disk is shareable between VMs
}

// PoolVolumes lists the volumes of a pool by name. Actors without access to all projects see only published volumes and
// disks of VMs visible to them.
func (b *Queries) PoolVolumes(ctx context.Context, a fleet.Actor, id fleet.PoolID) ([]VolumeOn, error) {
	pool, err := b.readPoolRow(ctx, a, id)
	if err != nil {
		return nil, err
	}
	var s statementBuilder
	s.addCondition("a.pool_id = " + s.addKeyArg(string(id)) + " AND a.status IS NOT NULL")
	statuses, err := collectRows(ctx, b, `SELECT a.host_id, h.name, `+reportsFreshSQL+` AND a.said = 'active', a.status->'volumes'
		FROM assignments a JOIN hosts h ON h.id = a.host_id LEFT JOIN host_sessions s ON s.host_id = a.host_id`+s.whereClause()+` ORDER BY h.name`, &s,
		func(row pgx.CollectableRow) (poolVolumeReport, error) {
			x := poolVolumeReport{pool: pool}
			err := row.Scan(&x.host, &x.hostName, &x.ready, &x.volumes)
			return x, err
		})
	if err != nil {
		return nil, err
	}
	volumes := mergeVolumes(statuses)
	if !policy.May(a, policy.InfraChange, "") {
		return visibleVolumes(ctx, b.store.Queries, a, volumes)
	}
	return addVolumeActions(ctx, b.store.Queries, a, pool, volumes)
}

// poolVolumeReport is one host's report on a pool's volumes. ready is set if the host is online and the pool active
// there.
type poolVolumeReport struct {
	pool     db.Pool
	host     fleet.HostID
	hostName string
	ready    bool
	seen     *time.Time // last inventory of a host with this report
	volumes  []fleet.Volume
}

// visibleVolumes returns the volumes that the actor may see, each with its owner (a VM) and, for an image copy, the
// image.
func visibleVolumes(ctx context.Context, q *db.Queries, a fleet.Actor, volumes []VolumeOn) ([]VolumeOn, error) {
	published, err := copiesOfVolumes(ctx, q, volumes)
	if err != nil {
		return nil, err
	}
	for i := range volumes {
		published.excludeOverlays(&volumes[i])
	}
	owners, err := readVolumeOwners(ctx, q, volumes)
	if err != nil {
		return nil, err
	}
	shown := []VolumeOn{}
	for _, v := range volumes {
		owner, seen := owners.findOwner(a, v)
		v.VM = owner
		published.markPublished(&v)
		if seen || v.offeredToActor(a) {
			shown = append(shown, redactVolume(a, v))
		}
	}
	return shown, nil
}

// newVolumeOnHost returns a volume as one host reports it. It records the host only for a local pool, because a volume
// of a shared pool is the same on all hosts.
func newVolumeOnHost(pool db.Pool, host fleet.HostID, v fleet.Volume) VolumeOn {
	out := VolumeOn{
		Volume: v, PoolID: pool.ID, PoolName: pool.Name, Shared: pool.Spec.Shared, Hosts: []HostRef{}, hostID: host, paths: []string{v.Path}, diskDomains: domainsOnHost(host, v.UsedBy), driveDomains: domainsOnHost(host, v.InDrive), overlayDomains: domainsOnHost(host, v.BackingUsers),
	}
	if out.Shared {
		out.hostID, out.paths = "", append(out.paths, path.Join(pool.Spec.Path, v.Name))
	}
	return out
}

// mergeVolumes merges the reports: one entry per volume of a shared pool, and one per host for a local pool.
func mergeVolumes(statuses []poolVolumeReport) []VolumeOn {
	type key struct {
		pool fleet.PoolID
		host fleet.HostID
		name string
	}
	out, at := []VolumeOn{}, map[key]int{}
	for _, x := range statuses {
		for _, v := range x.volumes {
			k := key{x.pool.ID, x.host, v.Name}
			if x.pool.Spec.Shared {
				k.host = ""
			}
			i, known := at[k]
			if !known {
				i, at[k] = len(out), len(out)
				out = append(out, newVolumeOnHost(x.pool, x.host, v))
			} else {
				out[i].mergeReport(x.host, v)
			}
			out[i].SeenAt = laterTime(out[i].SeenAt, x.seen)
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

// mergeReport merges another host's report on a volume of a shared pool. The result contains the users that any host
// reports.
func (v *VolumeOn) mergeReport(host fleet.HostID, said fleet.Volume) {
	v.Backing = cmp.Or(v.Backing, said.Backing)
	v.diskDomains = append(v.diskDomains, domainsOnHost(host, said.UsedBy)...)
	v.overlayDomains = append(v.overlayDomains, domainsOnHost(host, said.BackingUsers)...)
	v.SHA256, v.Altered = cmp.Or(v.SHA256, said.SHA256), v.Altered || said.Altered
	v.BackingUsers = sortedUnion(v.BackingUsers, said.BackingUsers)
	v.driveDomains = append(v.driveDomains, domainsOnHost(host, said.InDrive)...)
	v.UsedBy, v.InDrive, v.BaseOf = sortedUnion(v.UsedBy, said.UsedBy), sortedUnion(v.InDrive, said.InDrive), sortedUnion(v.BaseOf, said.BaseOf)
	if v.ModifiedAt = laterTime(v.ModifiedAt, said.ModifiedAt); len(v.UsedBy) > 0 {
		v.ModifiedAt = nil
	}
	if !slices.Contains(v.paths, said.Path) {
		v.paths = append(v.paths, said.Path)
	}
}

// sortedUnion returns the sorted union of a and b, at most fleet.MaxUsers elements.
func sortedUnion[T cmp.Ordered](a, b []T) []T {
	if len(b) == 0 {
		return a
	}
	all := slices.Concat(a, b)
	slices.Sort(all)
	all = slices.Compact(all)
	return all[:min(len(all), fleet.MaxUsers)]
}

func laterTime(a, b *time.Time) *time.Time {
	if a == nil || b != nil && b.After(*a) {
		return b
	}
	return a
}

func domainsOnHost(host fleet.HostID, ids []fleet.VMID) []domainKey {
	domains := make([]domainKey, len(ids))
	for i, id := range ids {
		domains[i] = domainKey{host, id}
	}
	return domains
}

// volumeOwners holds the VMs that own volumes: managed VMs by pool and volume name, VMs that hosts report as users, and
// unmanaged VMs by path. In a shared pool, a path is the same on all hosts.
type volumeOwners struct {
	vms        map[fleet.Volref]db.VolumeOwnersRow
	users      map[domainKey]db.DomainsNamedRow
	discovered map[poolFilePath]db.DiscoveredDisksRow
}

// poolFilePath is a path in a pool on one host, or on all hosts of the pool if host is empty.
type poolFilePath struct {
	pool fleet.PoolID
	host fleet.HostID
	path string
}

func readVolumeOwners(ctx context.Context, q *db.Queries, volumes []VolumeOn) (volumeOwners, error) {
	o := volumeOwners{map[fleet.Volref]db.VolumeOwnersRow{}, map[domainKey]db.DomainsNamedRow{}, map[poolFilePath]db.DiscoveredDisksRow{}}
	var params db.VolumeOwnersParams
	var domains, paths []string
	for _, v := range volumes {
		paths = append(paths, v.paths...)
		params.Pools, params.Volumes = append(params.Pools, string(v.PoolID)), append(params.Volumes, v.Name)
		for _, u := range v.diskDomains {
			domains = append(domains, string(u.id))
		}
	}
	if len(volumes) == 0 {
		return o, nil
	}
	vms, err := q.VolumeOwners(ctx, params)
	if err != nil {
		return o, store.UserError(err)
	}
	users, err := q.DomainsNamed(ctx, domains)
	if err != nil {
		return o, store.UserError(err)
	}
	found, err := q.DiscoveredDisks(ctx, db.DiscoveredDisksParams{Pools: slices.Compact(slices.Sorted(slices.Values(params.Pools))), Paths: paths})
	if err != nil {
		return o, store.UserError(err)
	}
	for _, r := range vms {
		o.vms[fleet.Volref{PoolID: fleet.PoolID(r.PoolID), Volume: r.Volume}] = r
	}
	for _, r := range users {
		o.users[domainKey{r.HostID, r.ID}] = r
	}
	for _, r := range found {
		o.discovered[poolFilePath{fleet.PoolID(r.PoolID), r.HostID, r.Path}], o.discovered[poolFilePath{fleet.PoolID(r.PoolID), "", r.Path}] = r, r
	}
	return o, nil
}

// findOwner returns the VM that has the volume as a disk, or nil. seen reports whether the actor may see the volume
// because of that VM.
func (o volumeOwners) findOwner(a fleet.Actor, v VolumeOn) (owner *VMRef, seen bool) {
	seesAll := policy.SeesAllProjects(a)
	if r, ok := o.vms[fleet.Volref{PoolID: v.PoolID, Volume: v.Name}]; ok {
		return &VMRef{ID: r.ID, Name: r.Name, diskShareable: r.Shares}, seesAll || policy.May(a, policy.VMSee, r.ProjectID)
	}
	if len(v.diskDomains) > 0 {
		u := v.diskDomains[0]
		switch r, ok := o.users[u]; {
		case !ok: // the host has not reported the domain itself yet
			return &VMRef{ID: u.id, Name: string(u.id), HostID: u.host}, seesAll
		case r.Found:
			return &VMRef{ID: r.ID, Name: r.Name, HostID: r.HostID}, seesAll
		default:
			return &VMRef{ID: r.ID, Name: r.Name}, seesAll || policy.May(a, policy.VMSee, r.ProjectID)
		}
	}
	for _, at := range v.paths {
		if r, ok := o.discovered[poolFilePath{v.PoolID, v.hostID, at}]; ok && at != "" {
			return &VMRef{ID: r.ID, Name: r.Name, HostID: r.HostID}, seesAll
		}
	}
	return nil, seesAll
}
