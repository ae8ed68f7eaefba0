package query

import (
	"cmp"
	"context"
	"strings"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/diagram"
	"quantix/internal/filter"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// treePageSize is the number of nodes in one page of a level.
const treePageSize = 100

// TreeQuery selects one level of the inventory tree.
type TreeQuery struct {
	View     string          // "hosts", "vms", "storage", "networks"
	Node     string          // key of the node to open; empty for the root
	After    string          // Next of the previous page
	LabelKey string          // view "vms": groups a project's VMs by this label; empty for no groups
	Project  fleet.ProjectID // empty for all visible projects
	Host     fleet.HostID    // view "hosts", Layout: the host of the page's object; empty: none
}

// TreeNode is one row of the tree. With Key as TreeQuery.Node, Tree returns the node's children. The keys "cluster:<id>",
// "host:<id>", "vm:<id>", "pool:<id>" and "net:<id>" are also wake-up keys.
type TreeNode struct {
	Key string `json:"key"`
	// Kind is "cluster", "host", "found" (the group of a host's unmanaged VMs), "foundVM", "vm", "project", "label", "storage",
	// "pool" or "network".
	Kind        string         `json:"kind"`
	ID          string         `json:"id"`               // of the object; empty for groups
	HostID      fleet.HostID   `json:"hostId,omitempty"` // host of the kinds found and foundVM
	Name        string         `json:"name"`
	Icon        string         `json:"icon"` // name of a Lucide icon
	Severity    fleet.Severity `json:"severity,omitempty"`
	PhaseWord   string         `json:"phaseWord,omitempty"`
	Count       int            `json:"count,omitempty"`
	HasChildren bool           `json:"hasChildren"`
}

// TreeLevel is one page of a level.
type TreeLevel struct {
	Nodes []TreeNode `json:"nodes"`
	Next  string     `json:"next,omitempty"`
}

// Tree returns one page of one level of the inventory tree.
func (b *Queries) Tree(ctx context.Context, a fleet.Actor, q TreeQuery) (TreeLevel, error) {
	if err := policy.Check(a, cmp.Or(diagram.TreeByName(q.View).Right, policy.VMSee), ""); err != nil {
		return TreeLevel{}, err
	}
	page := fleet.Query{Limit: treePageSize, After: q.After, Project: q.Project}
	typ, id, _ := strings.Cut(q.Node, ":")
	switch q.View + "/" + typ {
	case "hosts/":
		return b.hostsTreeRoot(ctx, page)
	case "hosts/cluster":
		if validIDOrEmpty(id) == "" {
			return TreeLevel{Nodes: []TreeNode{}}, nil
		}
		return b.hostsTreeLevel(ctx, page, fleet.ClusterID(id))
	case "hosts/host":
		return b.hostTreeLevel(ctx, a, page, fleet.HostID(id))
	case "hosts/found":
		return b.discoveredTreeLevel(ctx, a, page, id)
	case "vms/":
		return b.projectsTreeLevel(ctx, a, page)
	case "vms/project":
		return b.projectTreeLevel(ctx, a, page, fleet.ProjectID(id), q.LabelKey)
	case "vms/label":
		return b.labelTreeLevel(ctx, a, page, id)
	case "storage/":
		return b.storageTreeLevel(ctx, a)
	case "storage/storage":
		return b.poolsTreeLevel(ctx, a, page, id)
	case "networks/":
		return b.networksTreeLevel(ctx, a, page)
	}
	return TreeLevel{}, fleet.Errorf(fleet.NotFound, "There is no such node in the inventory.")
}

// hostsTreeRoot returns the clusters, or the hosts while there is only one cluster.
func (b *Queries) hostsTreeRoot(ctx context.Context, q fleet.Query) (TreeLevel, error) {
	rq := clustersTreeQuery()
	clusters, err := collectRows(ctx, b, rq.sql, rq.s, rq.scan)
	if err != nil {
		return TreeLevel{}, err
	}
	if len(clusters) < 2 {
		return b.hostsTreeLevel(ctx, q, "")
	}
	return TreeLevel{Nodes: clusters}, nil
}

// clustersTreeQuery builds the query for all clusters. Their number is limited: see fleet.MaxClusters.
func clustersTreeQuery() rowQuery[TreeNode] {
	const sql = "SELECT cl.id, cl.name, EXISTS (SELECT 1 FROM hosts h WHERE h.cluster_id = cl.id) FROM clusters cl ORDER BY cl.name"
	return rowQuery[TreeNode]{sql, new(statementBuilder), func(row pgx.CollectableRow) (TreeNode, error) {
		var id fleet.ClusterID
		var name string
		var hasHosts bool
		err := row.Scan(&id, &name, &hasHosts)
		node := newTreeNode(fleet.TypeCluster, id, name)
		node.HasChildren = hasHosts
		return node, err
	}}
}

// hostsTreeLevel returns the hosts of a cluster, or all hosts if cluster is empty.
func (b *Queries) hostsTreeLevel(ctx context.Context, q fleet.Query, cluster fleet.ClusterID) (TreeLevel, error) {
	p, rq, err := hostsTreeQuery(q, cluster)
	if err != nil {
		return TreeLevel{}, err
	}
	sums, err := b.currentCounters(ctx)
	if err != nil {
		return TreeLevel{}, err
	}
	hosts, err := collectRows(ctx, b, rq.sql, rq.s, rq.scan)
	return newTreeLevel(p.buildPage(hosts), sums.hostTreeNode), err
}

// hostsTreeQuery builds the query for one page of hosts, of all clusters if cluster is empty, with only their names and
// phases.
func hostsTreeQuery(q fleet.Query, cluster fleet.ClusterID) (pagePosition[fleet.HostView], rowQuery[fleet.HostView], error) {
	p, err := hostSortOrders.parsePaging(q, "name")
	if err != nil {
		return p, rowQuery[fleet.HostView]{}, err
	}
	s := new(statementBuilder)
	if cluster != "" {
		s.addCondition("h.cluster_id = " + s.addKeyArg(string(cluster)))
	}
	tail := p.applyCursor(s)
	sql := "SELECT h.id, h.name, " + hostPhaseSQL + " FROM hosts h LEFT JOIN host_sessions s ON s.host_id = h.id" + s.whereClause() + tail
	return p, rowQuery[fleet.HostView]{sql, s, func(row pgx.CollectableRow) (v fleet.HostView, err error) {
		err = row.Scan(&v.ID, &v.Name, &v.Phase)
		return v, err
	}}, nil
}

func (n *publishedTotals) hostTreeNode(h fleet.HostView) TreeNode {
	vms := n.hosts[h.ID].vms
	node := newTreeNode(fleet.TypeHost, h.ID, h.Name).withPhase(h.Phase.Severity(), h.Phase.DisplayName())
	node.Count, node.HasChildren = vms, vms+int(n.discovered[h.ID].Vms) > 0
	return node
}

func newTreeLevel[T any](page fleet.Page[T], node func(T) TreeNode) TreeLevel {
	l := TreeLevel{Nodes: make([]TreeNode, len(page.Items)), Next: page.Next}
	for i, item := range page.Items {
		l.Nodes[i] = node(item)
	}
	return l
}

// newTreeNode returns the node of one object.
func newTreeNode[I ~string](n fleet.ResourceType, id I, name string) TreeNode {
	is := n.Info()
	return TreeNode{Key: string(fleet.SubjectOf(n, id)), Kind: is.Label, ID: string(id), Name: name, Icon: is.Icon}
}

func (n TreeNode) withPhase(t fleet.Severity, word string) TreeNode {
	n.Severity, n.PhaseWord = t, word
	return n
}

func vmTreeNode(v fleet.VMView) TreeNode {
	return newTreeNode(fleet.TypeVM, v.ID, v.Name).withPhase(v.Phase.Severity(), v.Phase.DisplayName())
}

// hostTreeLevel returns a node for the group of the host's unmanaged VMs, and then the host's VMs.
func (b *Queries) hostTreeLevel(ctx context.Context, a fleet.Actor, q fleet.Query, id fleet.HostID) (TreeLevel, error) {
	var s statementBuilder
	s.addCondition("v.host_id = " + s.addArg(validIDOrEmpty(string(id))))
	page, err := b.listVMs(ctx, a, q, &s)
	if err != nil {
		return TreeLevel{}, err
	}
	sums, err := b.currentCounters(ctx)
	l := newTreeLevel(page, vmTreeNode)
	if n := int(sums.discovered[id].Vms); err == nil && n > 0 && q.After == "" {
		found := TreeNode{Key: "found:" + string(id), Kind: "found", HostID: id, Name: "Discovered", Icon: "folder", Count: n, HasChildren: true}
		l.Nodes = append([]TreeNode{found}, l.Nodes...)
	}
	return l, err
}

// validIDOrEmpty returns id, or an empty string if id is malformed. An empty string matches no object.
func validIDOrEmpty(id string) string {
	if !fleet.IsID(id) {
		return ""
	}
	return id
}

func (b *Queries) discoveredTreeLevel(ctx context.Context, a fleet.Actor, q fleet.Query, host string) (TreeLevel, error) {
	var s statementBuilder
	s.addCondition("f.host_id = " + s.addArg(validIDOrEmpty(host)))
	page, err := b.listDiscoveredVMs(ctx, a, q, &s)
	return newTreeLevel(page, func(f fleet.DiscoveredVM) TreeNode {
		return TreeNode{
			Key: "foundVM:" + string(f.HostID) + "/" + string(f.ID), Kind: "foundVM", ID: string(f.ID), HostID: f.HostID, Name: f.Name, Icon: "monitor",
			Severity: f.Phase.Severity(), PhaseWord: f.Phase.DisplayName(),
		}
	}), err
}

func (b *Queries) projectsTreeLevel(ctx context.Context, a fleet.Actor, q fleet.Query) (TreeLevel, error) {
	page, err := b.ListProjects(ctx, a, q)
	return newTreeLevel(page, func(p fleet.Project) TreeNode {
		node := newTreeNode(fleet.TypeProject, p.ID, p.Name)
		node.Count, node.HasChildren = p.VMs, p.VMs > 0
		return node
	}), err
}

// projectTreeLevel returns a project's VMs, or, with a label key, the groups of VMs with equal values of that label.
func (b *Queries) projectTreeLevel(ctx context.Context, a fleet.Actor, q fleet.Query, id fleet.ProjectID, key string) (TreeLevel, error) {
	if err := policy.Check(a, policy.VMSee, id); err != nil {
		return TreeLevel{}, store.UnknownProjectError(err)
	}
	if key == "" {
		q.Project = fleet.ProjectID(validIDOrEmpty(string(id)))
		if q.Project == "" {
			return TreeLevel{Nodes: []TreeNode{}}, nil
		}
		page, err := b.listVMs(ctx, a, q, new(statementBuilder))
		return newTreeLevel(page, vmTreeNode), err
	}
	var checks fleet.Checks
	if fleet.CheckLabels(&checks, "label", map[string]string{key: ""}); checks.Err() != nil {
		return TreeLevel{}, checks.Err()
	}
	groups, err := b.store.LabelGroups(ctx, db.LabelGroupsParams{Key: key, ProjectID: fleet.ProjectID(validIDOrEmpty(string(id)))})
	if err != nil {
		return TreeLevel{}, store.UserError(err)
	}
	l := TreeLevel{Nodes: []TreeNode{}}
	for _, g := range groups {
		n := TreeNode{Key: "label:" + string(id) + ":" + key, Kind: "label", Name: "without " + key, Icon: "tag", Count: int(g.Vms), HasChildren: true}
		if g.Labelled {
			n.Key, n.Name = n.Key+"="+g.Value, key+"="+g.Value
		}
		l.Nodes = append(l.Nodes, n)
	}
	return l, nil
}

// labelTreeLevel returns the VMs of a label group. node is "<project>:<key>=<value>", or "<project>:<key>" for VMs
// without the label.
func (b *Queries) labelTreeLevel(ctx context.Context, a fleet.Actor, q fleet.Query, node string) (TreeLevel, error) {
	project, label, _ := strings.Cut(node, ":")
	if q.Project = fleet.ProjectID(validIDOrEmpty(project)); q.Project == "" || strings.ContainsRune(label, 0) {
		return TreeLevel{Nodes: []TreeNode{}}, nil
	}
	key, value, has := strings.Cut(label, "=")
	var s statementBuilder
	if has {
		s.addCondition(s.matchLabels("v.labels", []filter.Match{{Label: key, Pattern: filter.Pattern{value}}}))
	} else {
		s.addConditionOrNegation(true, s.matchLabels("v.labels", []filter.Match{{Label: key, Pattern: filter.Pattern{"", ""}}}))
	}
	page, err := b.listVMs(ctx, a, q, &s)
	return newTreeLevel(page, vmTreeNode), err
}

func (b *Queries) storageTreeLevel(ctx context.Context, a fleet.Actor) (TreeLevel, error) {
	groups := []TreeNode{
		{Key: "storage:shared", Kind: "storage", Name: "Shared", Icon: "folder"},
		{Key: "storage:local", Kind: "storage", Name: "Local", Icon: "folder"},
	}
	counts, err := b.store.CountPools(ctx, db.CountPoolsParams{AllPools: policy.May(a, policy.InfraSee, ""), Projects: store.VisibleProjects(a)})
	for i, n := range []int64{counts.Shared, counts.Local} {
		groups[i].Count, groups[i].HasChildren = int(n), n > 0
	}
	return TreeLevel{Nodes: groups}, store.UserError(err)
}

func (b *Queries) poolsTreeLevel(ctx context.Context, a fleet.Actor, q fleet.Query, group string) (TreeLevel, error) {
	p, err := poolSortOrders.parsePaging(q, "name")
	if err != nil {
		return TreeLevel{}, err
	}
	var s statementBuilder
	s.addCondition("(p.spec->>'shared')::boolean = " + s.addArg(group == "shared"))
	s.wherePoolVisible(a, "")
	page, err := b.readPoolPage(ctx, a, p, s, nil)
	return newTreeLevel(page, func(v fleet.PoolView) TreeNode {
		return newTreeNode(fleet.TypePool, v.ID, v.Name).withPhase(v.Health.Severity, v.Health.Summary)
	}), err
}

func (b *Queries) networksTreeLevel(ctx context.Context, a fleet.Actor, q fleet.Query) (TreeLevel, error) {
	page, err := b.ListNetworks(ctx, a, q)
	return newTreeLevel(page, func(v fleet.NetworkView) TreeNode {
		node := newTreeNode(fleet.TypeNetwork, v.ID, v.Name)
		node.Count = v.Health.Hosts
		return node
	}), err
}
