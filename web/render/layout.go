package render

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"quantix/internal/control/query"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views/kit"
	"quantix/views/shell"
)

const maxDockTasks = 8

// FillPageLayout sets the fields of the page layout that need no database query.
func (r *Renderer) FillPageLayout(c echo.Context, f *shell.PageLayout) {
	request := c.Request()
	f.Now, f.Path, f.Query = time.Now(), LocalPathOrRoot(request.URL.Path), request.URL.Query()
	if request.Method != http.MethodGet {
		f.Query = url.Values{} // the page answers a POST, whose address cannot be opened
	}
	f.Tree.View = chosenTreeView(c, append(shell.VisibleTreeViews(f.Actor), fleet.TreeVMs))
	f.Tree.Group = treeGroupingLabel(c)
	f.Dock.All = displayPreference(c, "dock", "mine", "all") == "all"
	f.Dock.Now = f.Now
	f.IsErrorPage = true
}

// loadPageLayout reads the data of the page layout from the database: tree, recent tasks and the like.
func (r *Renderer) loadPageLayout(c echo.Context, f *shell.PageLayout) error {
	r.FillPageLayout(c, f)
	f.IsErrorPage = false
	if !f.ActorMay(policy.VMSee) {
		return nil // a user without a role gets an empty layout
	}
	ctx := c.Request().Context()
	if f.Project != "" && f.ProjectName == "" {
		project, err := r.Control.GetProject(ctx, f.Actor, f.Project)
		if err != nil && fleet.CodeOf(err) != fleet.NotFound {
			return err
		}
		f.ProjectName = project.Name
	}
	if f.Project != "" && f.ProjectName != "" {
		rememberProject(c, f.Project)
	}
	tree := query.TreeQuery{View: f.Tree.View, LabelKey: f.Tree.Group}
	hostAt := slices.IndexFunc(f.ObjectKeys, func(key string) bool { return strings.HasPrefix(key, string(fleet.TypeHost)+":") })
	if hostAt >= 0 {
		_, id := fleet.Subject(f.ObjectKeys[hostAt]).ResourceAndID()
		tree.Host = fleet.HostID(id)
	}
	around, err := r.Control.Layout(ctx, f.Actor, taskDockQuery(f.Dock.All), tree)
	if err != nil {
		return err
	}
	f.UnfinishedTasks, f.Dock.Tasks = around.Running, around.Tasks
	if around.Cluster != "" {
		f.ObjectKeys = slices.Insert(slices.Clone(f.ObjectKeys), hostAt, string(fleet.SubjectOf(fleet.TypeCluster, around.Cluster)))
	}
	f.Tree, err = r.buildTreeLevel(c, f.Actor, tree, around.Tree, f.ObjectKeys)
	return err
}

// taskDockQuery returns the query of the task dock, the list of recent tasks at the bottom of the page: the user's
// newest tasks, or the newest of all visible tasks.
func taskDockQuery(all bool) fleet.Query {
	if all {
		return fleet.Query{Limit: maxDockTasks}
	}
	return fleet.Query{Limit: maxDockTasks, Filter: "who:me"}
}

func (r *Renderer) readTaskDock(c echo.Context, a fleet.Actor, all bool) (shell.TaskDock, error) {
	tasks, err := r.Control.ListTasks(c.Request().Context(), a, taskDockQuery(all))
	return shell.TaskDock{All: all, Tasks: tasks.Items, Now: time.Now()}, err
}

// readTreeLevel reads the children of one node of the tree. It expands the nodes on the path (here) to the page's
// object.
func (r *Renderer) readTreeLevel(c echo.Context, a fleet.Actor, q query.TreeQuery, here []string) (shell.TreeLevel, error) {
	rows, err := r.Control.Tree(c.Request().Context(), a, q)
	if err != nil {
		return shell.TreeLevel{}, err
	}
	return r.buildTreeLevel(c, a, q, rows, here)
}

// buildTreeLevel is readTreeLevel for rows that are already read.
func (r *Renderer) buildTreeLevel(c echo.Context, a fleet.Actor, q query.TreeQuery, rows query.TreeLevel, here []string) (shell.TreeLevel, error) {
	l := shell.TreeLevel{View: q.View, Group: q.LabelKey, Node: q.Node, ObjectKeys: here}
	l.Next = rows.Next
	l.Items = make([]shell.TreeItem, len(rows.Nodes))
	for i, n := range rows.Nodes {
		l.Items[i] = shell.TreeItem{
			Key: n.Key, Kind: n.Kind, ID: n.ID, HostID: string(n.HostID), Name: n.Name, Icon: n.Icon,
			Severity: n.Severity, Word: n.PhaseWord, Count: n.Count, HasChildren: n.HasChildren,
		}
		// Only the ancestors of the page's object are expanded, not the object itself. An ancestor has children even if
		// its child count is still 0.
		if at := slices.Index(here, n.Key); at >= 0 && at < len(here)-1 {
			below, err := r.readTreeLevel(c, a, query.TreeQuery{View: q.View, Node: n.Key, LabelKey: q.LabelKey}, here)
			if err != nil {
				return l, err
			}
			l.Items[i].Children, l.Items[i].HasChildren = &below, true
		}
	}
	return l, nil
}

// displayPreference returns the display preference called name of this browser: from the query, else from a cookie,
// else the first allowed value. It stores a value from the query in the cookie.
func displayPreference(c echo.Context, name string, allowed ...string) string {
	if v := c.QueryParam(name); slices.Contains(allowed, v) {
		storePreferenceCookie(c, name, v)
		return v
	}
	if cookie, err := c.Cookie("quantix-" + name); err == nil && slices.Contains(allowed, cookie.Value) {
		return cookie.Value
	}
	return allowed[0]
}

// resourceTypeAtPath returns the resource type of the pages at a path, and the rest of the path.
func resourceTypeAtPath(path string) (t fleet.ResourceTypeInfo, rest string) {
	list, rest, _ := strings.Cut(strings.Trim(path, "/"), "/")
	t, _ = fleet.ResourceTypeByPlural(list)
	return t, rest
}

// chosenTreeView returns the tree view that the user has chosen. If the query chooses none and the stored view does not
// show the page's object, it returns a view that shows the object.
func chosenTreeView(c echo.Context, allowed []string) string {
	chosen := displayPreference(c, "tree", allowed...)
	if c.QueryParam("tree") != "" {
		return chosen
	}
	t, _ := resourceTypeAtPath(c.Request().URL.Path)
	if slices.Contains(t.Trees, chosen) {
		return chosen
	}
	for _, view := range t.Trees {
		if slices.Contains(allowed, view) {
			return view
		}
	}
	return chosen
}

func storePreferenceCookie(c echo.Context, name, value string) {
	c.SetCookie(&http.Cookie{
		Name: "quantix-" + name, Value: value, Path: "/", MaxAge: int((365 * 24 * time.Hour).Seconds()),
		HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: c.Scheme() == "https",
	})
}

// maxRecentProjects is how many projects a browser remembers.
const maxRecentProjects = 5

// RecentProjects are the projects that this browser has shown last, the newest first.
func RecentProjects(c echo.Context) (ids []fleet.ProjectID) {
	cookie, err := c.Cookie("quantix-projects")
	if err != nil {
		return nil
	}
	for id := range strings.SplitSeq(cookie.Value, ".") {
		if fleet.IsID(id) && len(ids) < maxRecentProjects {
			ids = append(ids, fleet.ProjectID(id))
		}
	}
	return ids
}

func rememberProject(c echo.Context, id fleet.ProjectID) {
	recent := RecentProjects(c)
	if len(recent) > 0 && recent[0] == id {
		return
	}
	recent = slices.Insert(slices.DeleteFunc(recent, func(x fleet.ProjectID) bool { return x == id }), 0, id)
	texts := make([]string, 0, maxRecentProjects)
	for _, x := range recent[:min(len(recent), maxRecentProjects)] {
		texts = append(texts, string(x))
	}
	storePreferenceCookie(c, "projects", strings.Join(texts, "."))
}

// treeGroupingLabel returns the key of the label by which the tree groups VMs; empty: no grouping. Like
// displayPreference, it stores a valid key from the query in a cookie.
func treeGroupingLabel(c echo.Context) string {
	valid := func(key string) bool {
		var checks fleet.Checks
		fleet.CheckLabels(&checks, "group", map[string]string{key: ""})
		return checks.Err() == nil
	}
	if given, ok := c.QueryParams()["group"]; ok && (given[0] == "" || valid(given[0])) {
		storePreferenceCookie(c, "group", given[0])
		return given[0]
	}
	if cookie, err := c.Cookie("quantix-group"); err == nil && valid(cookie.Value) {
		return cookie.Value
	}
	return ""
}

func (r *Renderer) ShowTreeRoot(c echo.Context, a fleet.Actor) error {
	return r.writeTreeLevel(c, a, query.TreeQuery{View: c.Param("view"), After: c.QueryParam("after"), LabelKey: treeGroupingLabel(c)})
}

func (r *Renderer) ShowTreeLevel(c echo.Context, a fleet.Actor) error {
	return r.writeTreeLevel(c, a, query.TreeQuery{View: c.Param("view"), Node: c.Param("node"), After: c.QueryParam("after"), LabelKey: treeGroupingLabel(c)})
}

func (r *Renderer) writeTreeLevel(c echo.Context, a fleet.Actor, q query.TreeQuery) error {
	l, err := r.readTreeLevel(c, a, q, currentTreePath(c))
	if err != nil {
		return err
	}
	if IsHTMXRequest(c) {
		return r.WritePage(c, http.StatusOK, shell.TreeRows(l))
	}
	return r.WriteFragment(c, a, "Inventory", shell.TreePage(l))
}

// currentTreePath returns the tree path of the object whose page requests a tree level, so that the object's row stays
// marked.
func currentTreePath(c echo.Context) []string {
	u, err := url.Parse(c.Request().Header.Get("HX-Current-URL"))
	if err != nil {
		return nil
	}
	t, rest := resourceTypeAtPath(u.Path)
	id, _, _ := strings.Cut(rest, "/")
	if !t.FollowsOwnKey || id == "" {
		return nil
	}
	return []string{string(fleet.SubjectOf(t.Key, id))}
}

func (r *Renderer) ShowRecentTasks(c echo.Context, a fleet.Actor) error {
	d, err := r.readTaskDock(c, a, c.QueryParam("whose") == "all")
	if err != nil {
		return err
	}
	return r.WriteFragment(c, a, "Recent tasks", shell.RecentTasks(d))
}

func (r *Renderer) ShowRunningTaskCount(c echo.Context, a fleet.Actor) error {
	n, err := r.Control.RunningTasks(c.Request().Context(), a)
	if err != nil {
		return err
	}
	return r.WriteFragment(c, a, "Running tasks", shell.UnfinishedTaskCount(n))
}

// LinkToCurrentPage returns the address of the current page, without the display preferences in its query.
func LinkToCurrentPage(c echo.Context) kit.Link {
	return kit.Link{Path: c.Request().URL.Path, Query: c.QueryParams()}.Without("tree", "dock")
}
