package query

import (
	"context"

	"github.com/jackc/pgx/v5"

	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// PageLayout holds the data of the parts that every page has: the tasks and the inventory tree.
type PageLayout struct {
	Tasks   []fleet.Task // first page, newest first
	Running int          // waiting and running tasks, up to 1000
	Tree    TreeLevel    // root level of the inventory tree
	// Cluster is the cluster of TreeQuery.Host; empty: none, or the tree shows no clusters.
	Cluster fleet.ClusterID
}

// Layout reads the data of the PageLayout in as few round trips as possible. An actor without the permission to see
// tasks gets no tasks. tree must be a view that the actor may see.
func (b *Queries) Layout(ctx context.Context, a fleet.Actor, tasks fleet.Query, tree TreeQuery) (PageLayout, error) {
	var out PageLayout
	if err := policy.Check(a, policy.VMSee, ""); err != nil {
		return out, err
	}
	var batch pgx.Batch
	var jobs []fleet.Task
	var running []int
	var page pagePosition[fleet.Task]
	if policy.May(a, policy.TasksSee, "") {
		p, rq, err := b.tasksQuery(ctx, a, tasks)
		if err != nil {
			return out, err
		}
		page = p
		addToBatch(&batch, rq, &jobs)
		addToBatch(&batch, runningTasksQuery(a), &running)
	}
	var hosts []fleet.HostView
	var clusters []TreeNode
	var clusterOfHost []fleet.ClusterID
	byHost := tree.View == "hosts" && tree.Node == "" && policy.May(a, policy.InfraSee, "")
	p, rq, err := hostsTreeQuery(fleet.Query{Limit: treePageSize, After: tree.After}, "")
	if err != nil {
		return out, err
	}
	if byHost {
		addToBatch(&batch, rq, &hosts)
		addToBatch(&batch, clustersTreeQuery(), &clusters)
		if tree.Host != "" {
			addToBatch(&batch, clusterOfHostQuery(tree.Host), &clusterOfHost)
		}
	}
	if batch.Len() > 0 {
		if err := b.store.SendBatch(ctx, &batch).Close(); err != nil {
			return out, store.UserError(err)
		}
	}
	if running != nil {
		out.Tasks, out.Running = page.buildPage(redactAll(a, jobs, store.RedactTask)).Items, running[0]
		if err := b.store.HidePoolsOfTasks(ctx, a, pointers(out.Tasks)...); err != nil {
			return out, err
		}
	}
	if !byHost {
		out.Tree, err = b.Tree(ctx, a, tree)
		return out, err
	}
	if len(clusters) > 1 {
		out.Tree = TreeLevel{Nodes: clusters}
		for _, id := range clusterOfHost {
			out.Cluster = id
		}
		return out, nil
	}
	sums, err := b.currentCounters(ctx)
	if err != nil {
		return out, err
	}
	out.Tree = newTreeLevel(p.buildPage(hosts), sums.hostTreeNode)
	return out, nil
}

func clusterOfHostQuery(id fleet.HostID) rowQuery[fleet.ClusterID] {
	s := new(statementBuilder)
	s.addCondition("h.id = " + s.addKeyArg(string(id)))
	return rowQuery[fleet.ClusterID]{"SELECT h.cluster_id FROM hosts h" + s.whereClause(), s, pgx.RowTo[fleet.ClusterID]}
}
