// Package quotas has the use cases of projects' quotas. SQL checks each request that makes a project use more, whatever
// its path: see quota_excess in the migration 0103.
package quotas

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/quota"
)

// Quotas has the use cases of quotas.
type Quotas struct {
	store *store.Store
	log   *slog.Logger
}

// New returns Quotas.
func New(s *store.Store, log *slog.Logger) *Quotas { return &Quotas{s, log} }

// ProjectUsage returns a project's quota and usage.
func (qs *Quotas) ProjectUsage(ctx context.Context, a fleet.Actor, project fleet.ProjectID) (quota.ProjectUsage, error) {
	all, err := qs.ProjectUsages(ctx, a, []fleet.ProjectID{project})
	if err != nil {
		return quota.ProjectUsage{}, err
	}
	out, known := all[project]
	if !known {
		return out, fleet.Errorf(fleet.NotFound, "There is no such project.")
	}
	return out, nil
}

// ProjectUsages returns the quotas and usages of projects that exist.
func (qs *Quotas) ProjectUsages(ctx context.Context, a fleet.Actor, projects []fleet.ProjectID) (map[fleet.ProjectID]quota.ProjectUsage, error) {
	for _, p := range projects {
		if err := policy.Check(a, policy.VMSee, p); err != nil {
			return nil, store.UnknownProjectError(err)
		}
	}
	rows, err := qs.store.ProjectUses(ctx, store.ToStrings(projects))
	if err != nil {
		return nil, store.UserError(err)
	}
	out := make(map[fleet.ProjectID]quota.ProjectUsage, len(rows))
	for _, r := range rows {
		var one quota.ProjectUsage
		if err := errors.Join(json.Unmarshal(r.Used, &one.Usage), json.Unmarshal(r.Limits, &one.Quota)); err != nil {
			return nil, fmt.Errorf("read usage of project %s: %w", r.ProjectID, err)
		}
		out[r.ProjectID] = one
	}
	return out, qs.hidePools(ctx, a, out)
}

// hidePools replaces the IDs of pools that the actor may not see.
func (qs *Quotas) hidePools(ctx context.Context, a fleet.Actor, all map[fleet.ProjectID]quota.ProjectUsage) error {
	var ids []fleet.PoolID
	for _, one := range all {
		ids = slices.AppendSeq(slices.AppendSeq(ids, maps.Keys(one.Usage.Pools)), maps.Keys(one.Quota.Pools))
	}
	hidden, err := qs.store.HiddenPools(ctx, a, ids)
	for id := range hidden {
		for _, one := range all {
			renameKey(one.Usage.Pools, id, store.HiddenPoolID(id))
			renameKey(one.Quota.Pools, id, store.HiddenPoolID(id))
		}
	}
	return err
}

func renameKey[K comparable, V any](m map[K]V, from, to K) {
	if v, ok := m[from]; ok {
		delete(m, from)
		m[to] = v
	}
}

// SetQuota replaces a project's quota. A limit below the present use stops nothing and refuses more. A quota without
// limits is deleted.
func (qs *Quotas) SetQuota(ctx context.Context, a fleet.Actor, project fleet.ProjectID, to quota.Quota) (quota.ProjectUsage, error) {
	if err := policy.Check(a, policy.Manage, ""); err != nil {
		return quota.ProjectUsage{}, err
	}
	var checks fleet.Checks
	to.Check(&checks)
	if len(to.Pools) > maxPools {
		checks.Add(quota.PoolsKey, "At most %d pools can have a limit.", maxPools)
	}
	if err := checks.Err(); err != nil {
		return quota.ProjectUsage{}, err
	}
	maps.DeleteFunc(to.Pools, func(_ fleet.PoolID, l quota.Limit) bool { return l == quota.Limit{} })
	err := qs.store.Tx(ctx, func(q *db.Queries) error {
		name, err := q.ProjectName(ctx, project)
		if err != nil {
			return store.NotFoundError(err, "project")
		}
		was, err := q.GetQuota(ctx, project)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		if err := checkPools(ctx, q, was, to); err != nil {
			return err
		}
		if to.IsZero() {
			err = q.DropQuota(ctx, project)
		} else {
			err = q.SetQuota(ctx, db.SetQuotaParams{ProjectID: project, Limits: to, ChangedBy: a.Name})
		}
		if err != nil {
			return err
		}
		return store.Audit(ctx, q, a, "project.quota", fleet.Subject("project:"+string(project)), name, quota.ChangeText(was, to))
	})
	if err != nil {
		return quota.ProjectUsage{}, err
	}
	return qs.ProjectUsage(ctx, a, project)
}

// Raise replaces a project's limits by those that to returns, in a transaction, and returns the changes as text; empty:
// none. It locks the limits, so that to sees what the project uses now. The caller checks the permission.
func Raise(ctx context.Context, q *db.Queries, a fleet.Actor, project fleet.ProjectID, to func(was quota.Quota, used quota.Usage) quota.Quota) (string, error) {
	was, err := q.LockQuota(ctx, project)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	text, err := q.ProjectUse(ctx, string(project))
	if err != nil {
		return "", err
	}
	var used quota.Usage
	if err := json.Unmarshal(text, &used); err != nil {
		return "", err
	}
	is := to(was, used)
	changes := quota.ChangeText(was, is)
	if reflect.DeepEqual(was, is) {
		return "", nil
	}
	if err := q.SetQuota(ctx, db.SetQuotaParams{ProjectID: project, Limits: is, ChangedBy: a.Name}); err != nil {
		return "", err
	}
	name, err := q.ProjectName(ctx, project)
	if err != nil {
		return "", err
	}
	return changes, store.Audit(ctx, q, a, "project.quota", fleet.Subject("project:"+string(project)), name, changes)
}

// VMUse returns what a VM uses.
func VMUse(ctx context.Context, q *db.Queries, id fleet.VMID) (u quota.Usage, err error) {
	text, err := q.VMUse(ctx, id)
	if err != nil {
		return u, err
	}
	return u, json.Unmarshal(text, &u)
}

// maxPools limits the pools with a limit in one quota.
const maxPools = 1000

// checkPools refuses limits of pools that do not exist, unless they had a limit before.
func checkPools(ctx context.Context, q *db.Queries, was, to quota.Quota) error {
	var ids []string
	for id := range to.Pools {
		if _, had := was.Pools[id]; !had {
			ids = append(ids, string(id))
		}
	}
	if len(ids) == 0 {
		return nil
	}
	rows, err := q.PoolsForWork(ctx, ids)
	if err != nil {
		return err
	}
	var checks fleet.Checks
	slices.Sort(ids)
	for _, id := range ids {
		if !slices.ContainsFunc(rows, func(p db.Pool) bool { return string(p.ID) == id }) {
			checks.Add(quota.PoolsKey+"."+id, "There is no such pool.")
		}
	}
	return checks.Err()
}

// CheckGrowth refuses what would exceed the project's quota. The transaction then adds it. Other requests that make the
// project use more wait until the transaction ends.
func CheckGrowth(ctx context.Context, q *db.Queries, project fleet.ProjectID, more quota.Usage) error {
	text, err := json.Marshal(more)
	if err != nil {
		return err
	}
	return store.UserError(q.CheckQuota(ctx, db.CheckQuotaParams{ProjectID: string(project), Grown: text}))
}

// Excess returns why the project's quota does not allow more, in one sentence for each limit; empty: it does.
func Excess(ctx context.Context, q *db.Queries, project fleet.ProjectID, more quota.Usage) ([]string, error) {
	grown, err := json.Marshal(more)
	if err != nil {
		return nil, err
	}
	text, err := q.QuotaExcess(ctx, db.QuotaExcessParams{ProjectID: string(project), Grown: grown})
	if err != nil {
		return nil, err
	}
	var over []quota.Excess
	if err := json.Unmarshal(text, &over); err != nil {
		return nil, err
	}
	var out []string
	if refused, ok := errors.AsType[*fleet.Error](quota.Error(over)); ok {
		for _, f := range refused.Fields {
			out = append(out, f.Message)
		}
	}
	return out, nil
}

// recountedVMs is the number of VMs that one transaction of a recount reads.
const recountedVMs = 2000

// RecountUse is the pass that corrects wrong rows of vm_use. Only a fault of Quantix or a manual change of tables causes
// them. The log names the projects. Each page of VMs has its own transaction, so that a large fleet exceeds no time limit.
func (qs *Quotas) RecountUse(ctx context.Context, a fleet.Actor) error {
	for after := ""; ; {
		var page db.RecountUseRow
		err := qs.store.RunPass(ctx, a, "recount use", func(q *db.Queries) (err error) {
			page, err = q.RecountUse(ctx, db.RecountUseParams{After: after, Most: recountedVMs})
			return err
		})
		if err != nil {
			return err
		}
		if len(page.Wrong) > 0 {
			qs.log.Warn("The use of projects was counted wrongly, and is corrected.", "projects", strings.Join(page.Wrong, " "))
		}
		if after = page.Last; after == "" { // the last page, or another portal runs the pass
			return nil
		}
	}
}
