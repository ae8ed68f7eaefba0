package fleet

import (
	"net/url"
	"slices"
	"strings"
)

// Names of the inventory trees.
const (
	TreeHosts    = "hosts"
	TreeVMs      = "vms"
	TreeStorage  = "storage"
	TreeNetworks = "networks"
)

// ResourceType is a type of object. It is the part before the colon in the keys of subjects, wake-ups and tree rows.
type ResourceType string

const (
	TypeVM         ResourceType = "vm"
	TypeDiscovered ResourceType = "found" // unmanaged VM: a domain that Quantix did not create
	TypeHost       ResourceType = "host"
	TypePool       ResourceType = "pool"
	TypeNetwork    ResourceType = "net"
	TypeProject    ResourceType = "project"
	TypeUser       ResourceType = "user"
	TypeTask       ResourceType = "task"
	TypeVolume     ResourceType = "volume"
	TypeImage      ResourceType = "image"

	TypeCluster       ResourceType = "cluster"
	TypeSecurityGroup ResourceType = "secgroup"
	TypeCustomization ResourceType = "customization"
	TypeTemplate      ResourceType = "template"
	TypeAlarm         ResourceType = "alarm"
	TypeAlarmRule     ResourceType = "alarm-rule"
	TypeChannel       ResourceType = "channel"
	TypeFlavor        ResourceType = "flavor"
	TypeDeviceClass   ResourceType = "device-class"
	TypeRecycled      ResourceType = "recycled" // a VM in the recycle bin
	TypeRequest       ResourceType = "request"
	TypeHealthPolicy  ResourceType = "health-policy"
	TypeConsole       ResourceType = "console" // a session of a console
)

// ResourceTypeInfo describes a resource type for pages, events and the API.
type ResourceTypeInfo struct {
	Key    ResourceType
	Label  string     // singular in search results and addresses: "network"
	Plural string     // name of the list and of its completions; also the wake-up key of all objects: "networks"
	Title  string     // heading: "Networks"
	Icon   string     // name of a lucide icon
	Path   string     // path of the list; with an ID appended, the path of one object
	See    Permission // permission to see objects of the type and to receive their events

	Assigned bool // users assign objects of the type to hosts

	// within returns the page of another object that shows the object; set only for a type without pages of its own
	within func(id string) string

	TabOf ResourceType // resource type whose list links this type's list as a tab; empty: none

	HasParts         bool     // a change of any of the object's many parts wakes the object's pages
	FollowsOwnKey    bool     // the page of an object follows only that object's key; pages of all objects follow AllKey instead
	AllKey           string   // wake-up key of all objects, for users who see all projects; empty: pages follow no such key
	ProjectKeyPrefix string   // prefix of the wake-up key of a project's objects; empty: the type belongs to no project
	Trees            []string // trees that contain the objects, the preferred one first

	Filter FilterKeys // filter keys of the list; nil: the list has no filter
	View   []string   // query parameters of the list that a saved view stores; nil: no saved views
}

const (
	hostsPath = "/hosts"
	poolsPath = "/pools"
)

// resourceTypes lists all resource types, in the order of search results.
var resourceTypes = []ResourceTypeInfo{
	{
		Key: TypeVM, Label: "vm", Plural: "vms", Title: "VMs", Icon: "monitor",
		Path: "/vms", See: MaySeeVMs,
		FollowsOwnKey: true, AllKey: "vm:*", ProjectKeyPrefix: "vms:", Trees: []string{TreeHosts, TreeVMs},
		Filter: VMKeys, View: []string{"tab", "filter", "sort", "columns", "project", "limit"},
	},
	{
		Key: TypeHost, Label: "host", Plural: "hosts", Title: "Hosts", Icon: "server",
		Path: hostsPath, See: MaySeeInfra,
		FollowsOwnKey: true, AllKey: "host:*", Trees: []string{TreeHosts},
		Filter: HostKeys, View: []string{"tab", "filter", "sort", "columns", "limit"},
	},
	{
		Key: TypeCluster, Label: "cluster", Plural: "clusters", Title: "Clusters", Icon: "layers",
		Path: "/clusters", See: MaySeeInfra, TabOf: TypeHost,
		FollowsOwnKey: true, AllKey: "cluster:*", Trees: []string{TreeHosts},
		Filter: ClusterKeys, View: []string{"filter", "sort", "columns", "limit"},
	},
	{
		Key: TypePool, Label: "pool", Plural: "pools", Title: "Storage", Icon: "database", Assigned: true,
		Path: poolsPath, See: MaySeeStorage,
		FollowsOwnKey: true, AllKey: "pool:*", Trees: []string{TreeStorage},
		Filter: PoolKeys, View: []string{"filter", "sort", "columns", "limit"},
	},
	{
		Key: TypeNetwork, Label: "network", Plural: "networks", Title: "Networks", Icon: "network", Assigned: true,
		Path: "/networks", See: MaySeeStorage,
		FollowsOwnKey: true, AllKey: "net:*", Trees: []string{TreeNetworks},
		Filter: NetworkKeys, View: []string{"filter", "sort", "columns", "limit"},
	},
	{
		Key: TypeImage, Label: "image", Plural: "images", Title: "Images", Icon: "disc",
		Path: "/images", See: MaySeeStorage, TabOf: TypePool,
		FollowsOwnKey: true, AllKey: "image:*",
		Filter: ImageKeys, View: []string{"filter", "sort", "columns", "limit"},
	},
	{
		Key: TypeTemplate, Label: "template", Plural: "templates", Title: "Templates", Icon: "copy",
		Path: "/templates", See: MaySeeStorage, TabOf: TypePool,
		FollowsOwnKey: true, AllKey: "template:*",
		Filter: TemplateKeys, View: []string{"filter", "sort", "columns", "limit"},
	},
	{
		Key: TypeProject, Label: "project", Plural: "projects", Title: "Projects", Icon: "folder",
		Path: "/projects", See: MaySeeVMs,
		AllKey: "project:*", ProjectKeyPrefix: "project:", Trees: []string{TreeVMs},
	},
	{Key: TypeDiscovered, Label: "found", Plural: "found", Title: "Discovered VMs", Icon: "eye", See: MaySeeInfra, Filter: DiscoveredKeys, within: discoveredVMPath},
	{
		Key: TypeTask, Label: "task", Plural: "tasks", Title: "Tasks", Icon: "list-checks",
		Path: "/tasks", See: MaySeeTasks, FollowsOwnKey: true, HasParts: true, AllKey: "tasks", ProjectKeyPrefix: "tasks:",
		Filter: TaskKeys, View: []string{"filter", "sort", "columns", "project", "limit"},
	},
	{Key: TypeVolume, Label: "volume", Plural: "volumes", Title: "Volumes", Icon: "hard-drive", See: MaySeeStorage, within: volumesTabPath},
	{
		Key: TypeSecurityGroup, Label: "secgroup", Plural: "security-groups", Title: "Security groups", Icon: "shield-check",
		Path: "/security-groups", See: MaySeeVMs, TabOf: TypeNetwork, AllKey: "secgroup:*", ProjectKeyPrefix: "secgroups:",
		Filter: SecurityGroupKeys, View: []string{"filter", "sort", "columns", "limit"},
	},
	{Key: TypeCustomization, Label: "customization", Plural: "customizations", Title: "Customization specs", Icon: "file-text", Path: "/customizations", See: MaySeeVMs, TabOf: TypeVM},
	{Key: TypeRecycled, Label: "recycled", Plural: "recycle-bin", Title: "Recycle bin", Icon: "trash-2", Path: "/recycle-bin", See: MaySeeVMs, TabOf: TypeVM, Filter: RecycledKeys, View: []string{"filter", "sort", "columns", "project", "limit"}},
	{Key: TypeFlavor, Label: "flavor", Plural: "flavors", Title: "Flavors", Icon: "cpu", Path: "/flavors", See: MaySeeVMs, TabOf: TypeVM, AllKey: "flavors"},
	{Key: TypeDeviceClass, Label: "device-class", Plural: "device-classes", Title: "Device classes", Icon: "plug", Path: "/device-classes", See: MaySeeVMs, TabOf: TypeVM, AllKey: "device-classes"},
	{
		Key: TypeConsole, Label: "console", Plural: "console-sessions", Title: "Console sessions", Icon: "monitor", Path: "/console-sessions", See: MaySeeVMs, TabOf: TypeVM,
		AllKey: "consoles", Filter: ConsoleKeys, View: []string{"filter", "sort", "columns", "project", "limit"},
	},
	{
		Key: TypeAlarm, Label: "alarm", Plural: "alarms", Title: "Alarms", Icon: "triangle-alert",
		Path: "/alarms", See: MaySeeVMs, Filter: AlarmKeys, View: []string{"tab", "filter", "sort", "columns", "limit"},
	},
	{
		Key: TypeAlarmRule, Label: "alarm-rule", Plural: "alarm-rules", Title: "Rules", Icon: "list-checks",
		Path: "/alarm-rules", See: MaySeeInfra, TabOf: TypeAlarm, Filter: AlarmRuleKeys, View: []string{"filter", "sort", "columns", "limit"},
	},
	{Key: TypeChannel, Label: "channel", Plural: "channels", Title: "Channels", Icon: "external-link", Path: "/channels", See: MaySeeVMs, TabOf: TypeAlarm, AllKey: "channels"},
	{Key: TypeHealthPolicy, Label: "policy", Plural: "policies", Title: "Health policies", Icon: "shield", Path: "/policies", See: MaySeeInfra, TabOf: TypeAlarm, AllKey: "policies"},
	{
		Key: TypeRequest, Label: "request", Plural: "requests", Title: "Requests", Icon: "circle-question-mark", Path: "/requests", See: MaySeeVMs, TabOf: TypeProject,
		AllKey: "requests", Filter: RequestKeys, View: []string{"filter", "sort", "columns", "project", "limit"},
	},
	{Key: TypeUser, Label: "user", Plural: "users", Title: "Users", Icon: "users", Path: "/users", See: MayManage},
}

// ResourceTypes returns all resource types, in the order of search results.
func ResourceTypes() []ResourceTypeInfo { return slices.Clone(resourceTypes) }

func findResourceType(is func(ResourceTypeInfo) bool) (ResourceTypeInfo, bool) {
	if i := slices.IndexFunc(resourceTypes, is); i >= 0 {
		return resourceTypes[i], true
	}
	return ResourceTypeInfo{}, false
}

// Info returns the type's row of the table; the zero value for an unknown type.
func (n ResourceType) Info() ResourceTypeInfo {
	t, _ := findResourceType(func(t ResourceTypeInfo) bool { return t.Key == n })
	return t
}

// ResourceTypeByPlural returns the resource type whose list has the name.
func ResourceTypeByPlural(plural string) (ResourceTypeInfo, bool) {
	return findResourceType(func(t ResourceTypeInfo) bool { return t.Plural == plural })
}

// ResourceTypeByLabel returns the resource type with the label, and its rank among search results; rank -1: unknown.
func ResourceTypeByLabel(word string) (t ResourceTypeInfo, place int) {
	place = slices.IndexFunc(resourceTypes, func(t ResourceTypeInfo) bool { return t.Label == word })
	if place >= 0 {
		t = resourceTypes[place]
	}
	return t, place
}

// AssignedResourceTypes returns the types whose objects users assign to hosts.
func AssignedResourceTypes() []ResourceTypeInfo {
	return slices.DeleteFunc(slices.Clone(resourceTypes), func(t ResourceTypeInfo) bool { return !t.Assigned })
}

// SubjectOf returns the subject of an object, which is also the key of its wake-ups: "vm:<id>".
func SubjectOf[I ~string](n ResourceType, id I) Subject { return Subject(string(n) + ":" + string(id)) }

// volumesTabPath returns the path of the volume list that contains the volume; id is "<pool id>/<name>".
func volumesTabPath(id string) string {
	pool, _, _ := strings.Cut(id, "/")
	return poolsPath + "/" + url.PathEscape(pool) + "?tab=volumes"
}

// PagePath returns the path of the object's page, or of the page that shows the object; empty: none.
func (t ResourceTypeInfo) PagePath(id string) string {
	switch {
	case t.within != nil:
		return t.within(id)
	case t.Path == "":
		return ""
	}
	return t.Path + "/" + url.PathEscape(id)
}

// FilterableByProject reports whether the list can be filtered by project.
func (t ResourceTypeInfo) FilterableByProject() bool { return slices.Contains(t.View, "project") }
