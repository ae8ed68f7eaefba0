package hosts

import (
	"context"
	"slices"
	"strings"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// ClusterInput is the input for a new or changed cluster.
type ClusterInput struct {
	Name         string
	Spec         fleet.ClusterSpec
	IfGeneration int64 // of a change: the expected generation; 0: not checked
}

// complete returns the input with defaults filled in, or an error if a field is invalid.
func (in ClusterInput) complete() (ClusterInput, error) {
	var checks fleet.Checks
	if in.Spec.Placement == "" {
		in.Spec.Placement = fleet.PlacementSpread
	}
	fleet.CheckName(&checks, "name", in.Name)
	in.Spec.Check(&checks, "spec")
	return in, checks.Err()
}

// CreateCluster creates a cluster without hosts.
func (hs *Hosts) CreateCluster(ctx context.Context, a fleet.Actor, in ClusterInput) (fleet.ClusterView, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return fleet.ClusterView{}, err
	}
	in, err := in.complete()
	if err != nil {
		return fleet.ClusterView{}, err
	}
	id := fleet.NewID[fleet.ClusterID]()
	err = hs.store.Tx(ctx, func(q *db.Queries) error {
		if err := q.LockClusterList(ctx); err != nil {
			return err
		}
		n, err := q.CountClusters(ctx)
		if err != nil {
			return err
		}
		if n >= fleet.MaxClusters {
			return fleet.Errorf(fleet.Conflict, "There are %d clusters, which is the maximum. Delete some first.", n)
		}
		if err := q.AddCluster(ctx, db.AddClusterParams{ID: id, Name: in.Name, Spec: in.Spec}); err != nil {
			return clusterNameTakenError(err, in.Name)
		}
		none := fleet.Cluster{Name: in.Name, Spec: fleet.ClusterSpec{Placement: fleet.PlacementSpread}}
		return auditCluster(ctx, q, a, "cluster.create", id, in.Name, none.Changes(fleet.Cluster{Name: in.Name, Spec: in.Spec}))
	})
	if err != nil {
		return fleet.ClusterView{}, err
	}
	return hs.queries.GetCluster(ctx, a, id)
}

// UpdateCluster replaces a cluster's name and spec. No VM changes. A baseline that a host of the cluster does not support
// is refused.
func (hs *Hosts) UpdateCluster(ctx context.Context, a fleet.Actor, id fleet.ClusterID, in ClusterInput) (fleet.ClusterView, error) {
	err := hs.changeCluster(ctx, a, id, func(q *db.Queries, c db.Cluster) error {
		in, err := in.complete()
		if err != nil {
			return err
		}
		if in.IfGeneration != 0 && in.IfGeneration != c.Generation {
			return store.ChangedMeanwhileError("cluster", c.Generation, in.IfGeneration)
		}
		old, to := store.ClusterFromRow(c), store.ClusterFromRow(c)
		to.Name, to.Spec = in.Name, in.Spec
		changes := old.Changes(to)
		if len(changes) == 0 {
			return nil
		}
		if to.Spec.CPUModel != old.Spec.CPUModel {
			if err := checkBaseline(ctx, q, to, "spec.cpuModel", db.HostsBelowModelParams{Cluster: string(id), Ids: []string{}}); err != nil {
				return err
			}
		}
		if err := q.ChangeCluster(ctx, db.ChangeClusterParams{ID: id, Name: to.Name, Spec: to.Spec}); err != nil {
			return clusterNameTakenError(err, to.Name)
		}
		return auditCluster(ctx, q, a, "cluster.edit", id, to.Name, changes)
	})
	if err != nil {
		return fleet.ClusterView{}, err
	}
	return hs.queries.GetCluster(ctx, a, id)
}

// DeleteCluster deletes a cluster without hosts.
func (hs *Hosts) DeleteCluster(ctx context.Context, a fleet.Actor, id fleet.ClusterID) error {
	return hs.changeCluster(ctx, a, id, func(q *db.Queries, c db.Cluster) error {
		members, err := q.HostsOfCluster(ctx, id)
		if err != nil {
			return err
		}
		v, names := fleet.ClusterView{Cluster: store.ClusterFromRow(c)}, []string{}
		for _, m := range members {
			v.Hosts = int(m.Hosts)
			names = append(names, m.Name)
		}
		if ok, why := v.Allows(fleet.ActDelete); !ok {
			if len(names) > 3 {
				names[3] = "others"
			}
			if len(names) > 0 {
				why += " " + c.Name + " has " + strings.Join(names, ", ") + "."
			}
			return fleet.RefusalError(why)
		}
		if err := q.DeleteCluster(ctx, id); err != nil {
			return err
		}
		return auditCluster(ctx, q, a, "cluster.delete", id, c.Name, nil)
	})
}

// AddHostsToCluster moves hosts to the cluster. If one of them does not support the cluster's baseline, none is moved.
func (hs *Hosts) AddHostsToCluster(ctx context.Context, a fleet.Actor, id fleet.ClusterID, members []fleet.HostID) error {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return err
	}
	var checks fleet.Checks
	if len(members) == 0 {
		checks.Add("hosts", "Choose at least one host.")
	}
	for _, h := range members {
		if !fleet.IsID(string(h)) {
			checks.Add("hosts", "There is no such host.")
		}
	}
	if err := checks.Err(); err != nil {
		return err
	}
	members = slices.Compact(slices.Sorted(slices.Values(members))) // one order of locks
	return hs.store.Tx(ctx, func(q *db.Queries) error {
		var rows []db.Host
		for _, h := range members {
			row, err := q.LockHost(ctx, h)
			if err != nil {
				return store.NotFoundError(err, "host")
			}
			rows = append(rows, row)
		}
		cluster, err := lockJoinedCluster(ctx, q, id, members)
		for _, h := range rows {
			if err == nil && h.ClusterID != id {
				err = setCluster(ctx, q, a, h, cluster)
			}
		}
		return err
	})
}

// lockJoinedCluster locks the cluster that the hosts join. It refuses hosts that do not support the cluster's baseline.
func lockJoinedCluster(ctx context.Context, q *db.Queries, id fleet.ClusterID, joining []fleet.HostID) (fleet.Cluster, error) {
	var checks fleet.Checks
	if !fleet.IsID(string(id)) {
		checks.Add("clusterId", "There is no such cluster.")
		return fleet.Cluster{}, checks.Err()
	}
	row, err := q.ShareCluster(ctx, id)
	if err != nil {
		return fleet.Cluster{}, store.NotFoundError(err, "cluster")
	}
	cluster := store.ClusterFromRow(row)
	return cluster, checkBaseline(ctx, q, cluster, "clusterId", db.HostsBelowModelParams{Ids: store.ToStrings(joining)})
}

// checkBaseline adds an error at field for each of the hosts that does not support the cluster's baseline.
func checkBaseline(ctx context.Context, q *db.Queries, cluster fleet.Cluster, field string, of db.HostsBelowModelParams) error {
	if cluster.Spec.CPUModel == "" {
		return nil
	}
	of.Model, of.Most = cluster.Spec.CPUModel, fleet.MaxBaselineGaps
	below, err := q.HostsBelowModel(ctx, of)
	if err != nil || len(below) == 0 {
		return err
	}
	var texts []string
	for _, h := range below {
		texts = append(texts, fleet.CPUModelGap{Model: of.Model, Missing: h.Missing}.Text(h.Name, "cluster's baseline"))
	}
	var checks fleet.Checks
	checks.Add(field, "%s", strings.Join(texts, " "))
	return checks.Err()
}

// setCluster moves the locked host to the cluster.
func setCluster(ctx context.Context, q *db.Queries, a fleet.Actor, h db.Host, to fleet.Cluster) error {
	from, err := q.GetCluster(ctx, h.ClusterID)
	if err != nil {
		return err
	}
	if err := q.SetHostCluster(ctx, db.SetHostClusterParams{ID: h.ID, ClusterID: to.ID}); err != nil {
		return err
	}
	return store.Audit(ctx, q, a, "host.cluster", fleet.Subject("host:"+string(h.ID)), h.Name, from.Name+" → "+to.Name)
}

// changeCluster locks the cluster and calls do with it in the same transaction.
func (hs *Hosts) changeCluster(ctx context.Context, a fleet.Actor, id fleet.ClusterID, do func(*db.Queries, db.Cluster) error) error {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return err
	}
	if err := store.CheckID(id, "cluster"); err != nil {
		return err
	}
	return hs.store.Tx(ctx, func(q *db.Queries) error {
		c, err := q.LockCluster(ctx, id)
		if err != nil {
			return store.NotFoundError(err, "cluster")
		}
		return do(q, c)
	})
}

func clusterNameTakenError(err error, name string) error {
	return store.NameTakenError(err, "cluster_name_taken", "A cluster named %q exists already. Choose another name.", name)
}

func auditCluster(ctx context.Context, q *db.Queries, a fleet.Actor, action string, id fleet.ClusterID, name string, changes []string) error {
	return store.Audit(ctx, q, a, action, fleet.SubjectOf(fleet.TypeCluster, id), name, strings.Join(changes, ", "))
}
