// Package views holds the address of every page. Its subpackages, one per resource type, render the pages from values
// that the handlers prepared; they run no queries.
package views

import (
	"maps"
	"net/url"
	"strings"

	"quantix/internal/fleet"
)

// Addresses of the portal's objects. In each function, the parameter below holds path segments that follow the path of
// the object's page: VMPath(id, "delete").

// ObjectPath is the address of an object's page, or of a path below it. VMPath and so on are for one type each.
func ObjectPath[I ~string](n fleet.ResourceType, id I, below ...string) string {
	return joinPath(n.Info().PagePath(string(id)), below)
}

// VMPath is the address of a VM's page, or of a path below it.
func VMPath(id fleet.VMID, below ...string) string { return ObjectPath(fleet.TypeVM, id, below...) }

// DiscoveredVMPath is the address of an unmanaged VM's page, or of a path below it.
func DiscoveredVMPath(host fleet.HostID, id fleet.VMID, below ...string) string {
	return HostPath(host, append([]string{"found", string(id)}, below...)...)
}

// HostPath is the address of a host's page, or of a path below it.
func HostPath(id fleet.HostID, below ...string) string {
	return ObjectPath(fleet.TypeHost, id, below...)
}

// ClusterPath is the address of a cluster's page, or of a path below it.
func ClusterPath(id fleet.ClusterID, below ...string) string {
	return ObjectPath(fleet.TypeCluster, id, below...)
}

// AlarmPath is the address of an alarm's page, or of a path below it.
func AlarmPath(id fleet.AlarmID, below ...string) string {
	return ObjectPath(fleet.TypeAlarm, id, below...)
}

// AlarmRulePath is the address of an alarm rule's page, or of a path below it.
func AlarmRulePath(id fleet.AlarmRuleID, below ...string) string {
	return ObjectPath(fleet.TypeAlarmRule, id, below...)
}

// HealthPolicyPath is the address of a health policy, or of a path below it.
func HealthPolicyPath[ID ~string](id ID, below ...string) string {
	return ObjectPath(fleet.TypeHealthPolicy, id, below...)
}

// ChannelPath is the address of a channel's page, or of a path below it.
func ChannelPath[ID ~string](id ID, below ...string) string {
	return ObjectPath(fleet.TypeChannel, id, below...)
}

// RequestPath is the address of a request's page, or of a path below it.
func RequestPath[ID ~string](id ID, below ...string) string {
	return ObjectPath(fleet.TypeRequest, id, below...)
}

// DeviceClassPath is the address of a device class's page, or of a path below it.
func DeviceClassPath[ID ~string](id ID, below ...string) string {
	return ObjectPath(fleet.TypeDeviceClass, id, below...)
}

// FlavorPath is the address of a flavor's page, or of a path below it.
func FlavorPath[ID ~string](id ID, below ...string) string {
	return ObjectPath(fleet.TypeFlavor, id, below...)
}

// PoolPath is the address of a pool's page, or of a path below it.
func PoolPath(id fleet.PoolID, below ...string) string {
	return ObjectPath(fleet.TypePool, id, below...)
}

// NetworkPath is the address of a network's page, or of a path below it.
func NetworkPath(id fleet.NetworkID, below ...string) string {
	return ObjectPath(fleet.TypeNetwork, id, below...)
}

// SecurityGroupPath is the address of a security group's page, or of a path below it.
func SecurityGroupPath(id fleet.SecurityGroupID, below ...string) string {
	return ObjectPath(fleet.TypeSecurityGroup, id, below...)
}

// CustomizationPath is the address of a customization spec's page, or of a path below it.
func CustomizationPath(id fleet.CustomizationID, below ...string) string {
	return ObjectPath(fleet.TypeCustomization, id, below...)
}

// ImagePath is the address of an image's page, or of a path below it.
func ImagePath(id fleet.ImageID, below ...string) string {
	return ObjectPath(fleet.TypeImage, id, below...)
}

// TemplatePath is the address of a template's page, or of a path below it.
func TemplatePath(id fleet.TemplateID, below ...string) string {
	return ObjectPath(fleet.TypeTemplate, id, below...)
}

// ProjectPath is the address of a project's page, or of a path below it.
func ProjectPath(id fleet.ProjectID, below ...string) string {
	return ObjectPath(fleet.TypeProject, id, below...)
}

// UserPath is the address of a user's page, or of a path below it.
func UserPath(id fleet.UserID, below ...string) string {
	return ObjectPath(fleet.TypeUser, id, below...)
}

// TaskPath is the address of a task's page, or of a path below it.
func TaskPath(id fleet.TaskID, below ...string) string {
	return ObjectPath(fleet.TypeTask, id, below...)
}

// ContextMenuPath is the address of an object's context menu.
func ContextMenuPath[I ~string](n fleet.ResourceType, id I) string {
	return "/menus/" + n.Info().Label + "/" + url.PathEscape(string(id))
}

// APITokenPath is an address below one of the signed-in user's own API tokens.
func APITokenPath(id fleet.TokenID, below ...string) string {
	return joinPath("/account/tokens/"+url.PathEscape(string(id)), below)
}

// JoinTokenPath is an address below a join token.
func JoinTokenPath(id fleet.JoinTokenID, below ...string) string {
	return joinPath("/hosts/join/"+url.PathEscape(string(id)), below)
}

// RejoinHostPath is the address of the page with the steps to join a known host again.
func RejoinHostPath(id fleet.HostID) string {
	return withQuery("/hosts/join", "host="+url.QueryEscape(string(id)))
}

// AwaitJoinPath is the address of the page that waits until a host joins with the token.
func AwaitJoinPath(id fleet.JoinTokenID) string {
	return withQuery("/hosts/join", "token="+url.QueryEscape(string(id)))
}

// ProjectListPath is the address of a resource type's list, filtered by project.
func ProjectListPath(n fleet.ResourceType, id fleet.ProjectID) string {
	return withQuery(n.Info().Path, "project="+url.QueryEscape(string(id)))
}

// TabPath is the address of one tab of the page at path.
func TabPath(path, tab string) string { return withQuery(path, "tab="+tab) }

// SubjectPath is the address of the object that a task or an audit entry names. It is empty if the object has no page.
func SubjectPath(s fleet.Subject) string {
	typ, id := s.ResourceAndID()
	return fleet.ResourceType(typ).Info().PagePath(id)
}

func joinPath(path string, below []string) string {
	parts := []string{path}
	for _, part := range below {
		parts = append(parts, url.PathEscape(part))
	}
	return strings.Join(parts, "/")
}

// SavedViewPath is the address of a list with a saved view's query.
func SavedViewPath(list, query string) string { return withQuery("/"+list, query) }

// SavedViewsPath is the address of a person's saved views of a list; query is the query of the list as shown.
func SavedViewsPath(list, query string) string { return withQuery("/views/"+list, query) }

func withQuery(path, query string) string {
	if query == "" {
		return path
	}
	return path + "?" + query
}

// PlanPath is the address of the plan (dry run) of a VM change, or of a path below it.
func PlanPath(id fleet.PlanID, below ...string) string {
	return joinPath("/plans/"+url.PathEscape(string(id)), below)
}

// ComparePath is the address of the page that compares two VMs. If right is empty, the page lets the user choose the
// second VM.
func ComparePath(left, right fleet.VMID) string {
	return comparePath(url.Values{"id": {string(left)}, "with": {string(right)}})
}

// CompareTemplatePath is the address of the page that compares a VM with a template version. If vm is empty, the page
// lets the user choose the VM.
func CompareTemplatePath(vm fleet.VMID, t fleet.TemplateID, v fleet.TemplateVersionID) string {
	return comparePath(url.Values{"id": {string(vm)}, "template": {TemplateVersionValue(t, v)}})
}

func comparePath(sides url.Values) string {
	maps.DeleteFunc(sides, func(_ string, v []string) bool { return v[0] == "" })
	return withQuery("/vms/compare", sides.Encode())
}

// TemplateVersionValue is a template version as the value of a form field.
func TemplateVersionValue(t fleet.TemplateID, v fleet.TemplateVersionID) string {
	return string(t) + "/" + string(v)
}

// HelpPath is the address of the manual's contents, of a chapter, or of a heading of a chapter.
func HelpPath(chapter, anchor string) string {
	path := "/help"
	if chapter != "" {
		path += "/" + url.PathEscape(chapter)
	}
	if anchor != "" {
		path += "#" + anchor
	}
	return path
}
