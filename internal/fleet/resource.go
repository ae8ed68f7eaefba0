package fleet

import (
	"net/url"
	"slices"
	"strings"
)

// ResourceType is a kind of thing, as the part of a key before the colon names it: of a subject, a wake-up, a row of the tree.
type ResourceType string

const (
	TypeVM         ResourceType = "vm"
	TypeDiscovered ResourceType = "found" // a VM that Quantix did not make
	TypeHost       ResourceType = "host"
	TypePool       ResourceType = "pool"
	TypeNetwork    ResourceType = "net"
	TypeProject    ResourceType = "project"
	TypeUser       ResourceType = "user"
	TypeTask       ResourceType = "task"
	TypeVolume     ResourceType = "volume"
	TypeImage      ResourceType = "image"

	TypeSecurityGroup ResourceType = "secgroup"
	TypeCustomization ResourceType = "customization"
	TypeTemplate      ResourceType = "template"
)

// Resource is all that is decided about a noun.
type Resource struct {
	Key    ResourceType
	Label  string     // of one of them, in results of the search and in addresses: "network"
	Plural string     // the name of their list and of its completions, and the key of all of them: "networks"
	Title  string     // as a heading says it: "Networks"
	Icon   string     // a lucide name
	Path   string     // of their list; with an id behind it, of one of them
	See    Permission // that it takes to see any, and so to hear of them

	within func(id string) string // the page of another noun that shows one of them, where they have none of their own

	Parts bool     // one of them may have many, each of which wakes its pages
	Each  bool     // pages follow single ones by their own keys, so that a page that follows all need not follow each change
	All   string   // the wake-ups for all of them to who sees all projects; empty: pages do not follow them
	Own   string   // the same to who sees some, before a project's id; empty: they belong to no project
	Trees []string // the trees that hold them, the preferred one first

	Filter FilterKeys // that the box above their list helps with; nil: it has none
	View   []string   // what of their list's address says what it shows and how, and so makes a view; nil: views of it are not kept
}

const poolsPath = "/pools"

// resourceTypes is the table, in the order of search results.
var resourceTypes = []Resource{
	{
		Key: TypeVM, Label: "vm", Plural: "vms", Title: "VMs", Icon: "monitor",
		Path: "/vms", See: MaySeeVMs,
		Each: true, All: "vm:*", Own: "vms:", Trees: []string{TreeHosts, TreeVMs},
		Filter: VMKeys, View: []string{"tab", "filter", "sort", "columns", "project", "limit"},
	},
	{
		Key: TypeHost, Label: "host", Plural: "hosts", Title: "Hosts", Icon: "server",
		Path: "/hosts", See: MaySeeInfra,
		Each: true, All: "host:*", Trees: []string{TreeHosts},
		Filter: HostKeys, View: []string{"tab", "filter", "sort", "columns", "limit"},
	},
	{
		Key: TypePool, Label: "pool", Plural: "pools", Title: "Storage", Icon: "database",
		Path: poolsPath, See: MaySeeStorage,
		Each: true, All: "pool:*", Trees: []string{TreeStorage},
		Filter: PoolKeys, View: []string{"filter", "sort", "columns", "limit"},
	},
	{
		Key: TypeNetwork, Label: "network", Plural: "networks", Title: "Networks", Icon: "network",
		Path: "/networks", See: MaySeeStorage,
		Each: true, All: "net:*", Trees: []string{TreeNetworks},
		Filter: NetworkKeys, View: []string{"filter", "sort", "columns", "limit"},
	},
	{
		Key: TypeImage, Label: "image", Plural: "images", Title: "Images", Icon: "disc",
		Path: "/images", See: MaySeeStorage,
		Each: true, All: "image:*",
		Filter: ImageKeys, View: []string{"filter", "sort", "columns", "limit"},
	},
	{
		Key: TypeTemplate, Label: "template", Plural: "templates", Title: "Templates", Icon: "copy",
		Path: "/templates", See: MaySeeStorage,
		Each: true, All: "template:*",
		Filter: TemplateKeys, View: []string{"filter", "sort", "columns", "limit"},
	},
	{
		Key: TypeProject, Label: "project", Plural: "projects", Title: "Projects", Icon: "folder",
		Path: "/projects", See: MaySeeVMs,
		All: "project:*", Own: "project:", Trees: []string{TreeVMs},
	},
	{Key: TypeDiscovered, Label: "found", Plural: "found", Title: "Discovered VMs", Icon: "eye", See: MaySeeInfra, Filter: FoundKeys},
	{
		Key: TypeTask, Label: "task", Plural: "tasks", Title: "Tasks", Icon: "list-checks",
		Path: "/tasks", See: MaySeeTasks, Each: true, Parts: true, All: "tasks", Own: "tasks:",
		Filter: TaskKeys, View: []string{"filter", "sort", "columns", "project", "limit"},
	},
	{Key: TypeVolume, Label: "volume", Plural: "volumes", Title: "Volumes", Icon: "hard-drive", See: MaySeeStorage, within: volumesTab},
	{
		Key: TypeSecurityGroup, Label: "secgroup", Plural: "security-groups", Title: "Security groups", Icon: "shield-check",
		Path: "/security-groups", See: MaySeeVMs, All: "secgroup:*", Own: "secgroups:",
		Filter: SecurityGroupKeys, View: []string{"filter", "sort", "columns", "limit"},
	},
	{
		Key: TypeCustomization, Label: "customization", Plural: "customizations", Title: "Customization specs", Icon: "file-text",
		Path: "/customizations", See: MaySeeVMs,
	},
	{Key: TypeUser, Label: "user", Plural: "users", Title: "Users", Icon: "users", Path: "/users", See: MayManage},
}

func resource(is func(Resource) bool) (Resource, bool) {
	if i := slices.IndexFunc(resourceTypes, is); i >= 0 {
		return resourceTypes[i], true
	}
	return Resource{}, false
}

// Is is the noun's line in the table; that of an unknown noun is empty.
func (n ResourceType) Is() Resource {
	t, _ := resource(func(t Resource) bool { return t.Key == n })
	return t
}

// Listed is the noun whose list has the name.
func Listed(plural string) (Resource, bool) {
	return resource(func(t Resource) bool { return t.Plural == plural })
}

// Worded is the noun that a result of the search is of, and its place among the results.
func Worded(word string) (t Resource, place int) {
	place = slices.IndexFunc(resourceTypes, func(t Resource) bool { return t.Label == word })
	if place >= 0 {
		t = resourceTypes[place]
	}
	return t, place
}

// SubjectOf is the subject of one of them, and so the key of its wake-ups: "vm:<id>".
func SubjectOf[I ~string](n ResourceType, id I) Subject { return Subject(string(n) + ":" + string(id)) }

// volumesTab lists the volumes of the pool that a volume is in.
func volumesTab(id string) string {
	pool, _, _ := strings.Cut(id, "/")
	return poolsPath + "/" + url.PathEscape(pool) + "?tab=volumes"
}

// At is the page of one of them, or that which shows it; empty where they have none.
func (t Resource) At(id string) string {
	switch {
	case t.within != nil:
		return t.within(id)
	case t.Path == "":
		return ""
	}
	return t.Path + "/" + url.PathEscape(id)
}

// ByProject reports whether their list can be cut to a project.
func (t Resource) ByProject() bool { return slices.Contains(t.View, "project") }
