package browse

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// cell is one pool on one host, or a pool on no host (host empty).
type cell struct {
	pool     db.Pool
	host     fleet.HostID
	hostName string
	phase    fleet.HostPhase
	assigned bool
	seen     *time.Time
	starved  int
	status   *fleet.PoolStatus
	now      time.Time
}

// cells reads pools p with their hosts, in the order that by says and by host name. Volumes can be many, and are read only
// where they are asked for.
func (b *Browse) cells(ctx context.Context, from, by string, s statement, volumes bool) ([]cell, error) {
	status := "ph.status - 'volumes'"
	if volumes {
		status = "ph.status"
	}
	return collect(ctx, b, `SELECT p.id, p.name, p.spec, p.generation, p.created_at, p.deleted_at, COALESCE(ph.host_id, ''), COALESCE(h.name, ''), COALESCE(ph.asked = 'assign', false),
		s.seen_at, s.looked_at, COALESCE(s.conflict, ''), CASE WHEN h.status IS NOT NULL THEN s.blind_since IS NULL END, `+status+`,
		(SELECT count(*) FROM vms v WHERE v.host_id = ph.host_id AND `+starved+` AND v.spec @> jsonb_build_object('disks', jsonb_build_array(jsonb_build_object('poolId', p.id)))),
		now()
		FROM `+from+` p LEFT JOIN assignments ph ON ph.pool_id = p.id LEFT JOIN hosts h ON h.id = ph.host_id LEFT JOIN host_sessions s ON s.host_id = ph.host_id`+
		s.conditions()+` ORDER BY `+by+`, h.name`, &s, scanCell)
}

// starved is what the index vms_starved is about.
const starved = `v.starved`

func scanCell(row pgx.CollectableRow) (cell, error) {
	var x cell
	var conflict string
	var connected *bool
	var seen *time.Time // the agent; x.seen is how old what it says about the pool is
	err := row.Scan(&x.pool.ID, &x.pool.Name, &x.pool.Spec, &x.pool.Generation, &x.pool.CreatedAt, &x.pool.DeletedAt, &x.host, &x.hostName, &x.assigned,
		&seen, &x.seen, &conflict, &connected, &x.status, &x.starved, &x.now)
	x.phase = store.HostPhase(seen, x.seen, connected, conflict, x.now)
	return x, err
}

// poolViews gathers cells into pools. Only who sees hosts is shown the matrix and where the storage is.
func poolViews(a fleet.Actor, cells []cell) []fleet.PoolView {
	views := []fleet.PoolView{}
	var now time.Time
	for _, x := range cells {
		if n := len(views); n == 0 || views[n-1].ID != x.pool.ID {
			views = append(views, fleet.PoolView{Pool: store.PoolOf(x.pool), Hosts: []fleet.PoolHost{}})
		}
		if now = x.now; x.host == "" {
			continue
		}
		v := &views[len(views)-1]
		h := fleet.PoolHost{PoolID: x.pool.ID, HostID: x.host, HostName: x.hostName, HostPhase: x.phase, Status: x.status, SeenAt: x.seen, Assigned: x.assigned, Starved: x.starved}
		h.State = h.StateAt(now)
		h.Tone, h.Notice = policy.PoolCell(h, now)
		v.Hosts = append(v.Hosts, h)
	}
	for i := range views {
		v := &views[i]
		if v.Health = policy.PoolHealth(v.Spec, v.Hosts, now); v.DeletedAt != nil {
			v.Health.Tone, v.Health.Summary = fleet.ToneWarn, deletingPool
		}
		if !policy.May(a, policy.InfraSee, "") {
			v.Hosts = []fleet.PoolHost{}
			v.Spec = fleet.PoolSpec{Kind: v.Spec.Kind, Shared: v.Spec.Shared, Description: v.Spec.Description}
		}
	}
	return views
}

const deletingPool = "Being deleted: waiting for its hosts to release it"

var poolOrders = orders[fleet.PoolView]{
	"name": {[]column{textColumn("p.name"), textColumn("p.id")}, func(v fleet.PoolView) []string { return []string{v.Name, string(v.ID)} }},
	"created": {[]column{timeColumn("p.created_at"), textColumn("p.id")}, func(v fleet.PoolView) []string {
		return []string{stamp(v.CreatedAt), string(v.ID)}
	}},
}

// ListPools returns one page of pools with their health; not their volumes. Sorts: name, created.
func (b *Browse) ListPools(ctx context.Context, a fleet.Actor, q fleet.Query) (fleet.Page[fleet.PoolView], error) {
	if err := policy.Check(a, policy.StorageSee, ""); err != nil {
		return fleet.Page[fleet.PoolView]{}, err
	}
	p, terms, err := poolOrders.asked(q, "name", fleet.PoolKeys)
	if err != nil {
		return fleet.Page[fleet.PoolView]{}, err
	}
	var s statement
	var tones []fleet.Term
	for _, t := range terms {
		switch t.Key {
		case "name":
			s.not(t.Not, s.text("p.name", lower(t.Any)))
		case "kind":
			s.not(t.Not, s.text("p.spec->>'kind'", t.Any))
		case "host":
			ids, err := b.poolHostIDs(ctx, a, t)
			if err != nil {
				return fleet.Page[fleet.PoolView]{}, err
			}
			s.not(t.Not, "EXISTS (SELECT 1 FROM assignments ph WHERE ph.pool_id = p.id AND "+s.oneOf("ph.host_id", ids)+")")
		case "tone":
			tones = append(tones, t)
		}
	}
	return b.pagePools(ctx, a, p, s, tones)
}

// poolHostIDs hides which pools are where from those who do not see hosts.
func (b *Browse) poolHostIDs(ctx context.Context, a fleet.Actor, t fleet.Term) ([]string, error) {
	if !policy.May(a, policy.InfraSee, "") {
		return []string{}, nil
	}
	return b.named(ctx, "hosts", t.Any)
}

// pagePools reads pages until one is full: health is no column, so a page may lose rows after it was read.
func (b *Browse) pagePools(ctx context.Context, a fleet.Actor, p paging[fleet.PoolView], s statement, tones []fleet.Term) (fleet.Page[fleet.PoolView], error) {
	kept := []fleet.PoolView{}
	for at := p; ; {
		part := statement{where: slices.Clone(s.where), args: slices.Clone(s.args), varies: s.varies, searches: s.searches}
		tail := at.apply(&part)
		from := "(SELECT * FROM pools p" + part.conditions() + tail + ")"
		cells, err := b.cells(ctx, from, p.by(), statement{args: part.args, searches: part.searches}, false)
		if err != nil {
			return fleet.Page[fleet.PoolView]{}, err
		}
		views := poolViews(a, cells)
		more := len(views) > p.limit
		if more {
			views = views[:p.limit]
			at.cursor = p.values(views[p.limit-1])
		}
		for _, v := range views {
			if toned(tones, v.Health.Tone) {
				kept = append(kept, v)
			}
		}
		if !more || len(kept) > p.limit {
			return p.cut(kept), nil
		}
	}
}

func toned(tones []fleet.Term, tone fleet.Tone) bool {
	for _, t := range tones {
		if slices.ContainsFunc(t.Any, func(m fleet.Match) bool { return m.Matches(string(tone)) }) == t.Not {
			return false
		}
	}
	return true
}

// GetPool returns one pool with its host × health matrix, without volumes.
func (b *Browse) GetPool(ctx context.Context, a fleet.Actor, id fleet.PoolID) (fleet.PoolView, error) {
	if err := policy.Check(a, policy.StorageSee, ""); err != nil {
		return fleet.PoolView{}, err
	}
	if err := store.CheckID(id, "pool"); err != nil {
		return fleet.PoolView{}, err
	}
	var s statement
	s.and("p.id = " + s.arg(string(id)))
	cells, err := b.cells(ctx, "pools", "p.id", s, false)
	if err == nil && len(cells) == 0 {
		err = store.NotFound(pgx.ErrNoRows, "pool")
	}
	if err != nil {
		return fleet.PoolView{}, err
	}
	return poolViews(a, cells)[0], nil
}

// PoolNames are the names of those pools; one that does not exist has none.
func (b *Browse) PoolNames(ctx context.Context, a fleet.Actor, ids []fleet.PoolID) (map[fleet.PoolID]string, error) {
	if err := policy.Check(a, policy.StorageSee, ""); err != nil {
		return nil, err
	}
	rows, err := b.store.PoolNames(ctx, store.Texts(ids))
	names := make(map[fleet.PoolID]string, len(rows))
	for _, r := range rows {
		names[r.ID] = r.Name
	}
	return names, store.Err(err)
}

// PoolVMs is ListVMs of the VMs that have a disk in the pool.
func (b *Browse) PoolVMs(ctx context.Context, a fleet.Actor, id fleet.PoolID, q fleet.Query) (fleet.Page[fleet.VMView], error) {
	if err := policy.Check(a, policy.VMSee, ""); err != nil {
		return fleet.Page[fleet.VMView]{}, err
	}
	if _, err := b.GetPool(ctx, a, id); err != nil {
		return fleet.Page[fleet.VMView]{}, err
	}
	var s statement
	s.and(s.holds(holdsDisk, []string{string(id)}))
	return b.listVMs(ctx, a, q, &s)
}
