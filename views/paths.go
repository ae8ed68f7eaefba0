// Package views knows the address of every page. The pages themselves are in the packages below it, a noun each; they get ready
// values and ask nothing.
package views

import (
	"maps"
	"net/url"
	"strings"

	"quantix/internal/fleet"
)

// Every address of the portal that names a thing. The part after the thing says what of it: VMPath(id, "delete").

// VMPath is a VM's page, or what stands below it.
func VMPath(id fleet.VMID, below ...string) string { return pathOf(fleet.TypeVM, id, below) }

// FoundPath is the page of a VM that Quantix did not make.
func FoundPath(host fleet.HostID, id fleet.VMID) string {
	return HostPath(host, "found", string(id))
}

// HostPath is a host's page, or what stands below it.
func HostPath(id fleet.HostID, below ...string) string { return pathOf(fleet.TypeHost, id, below) }

// PoolPath is a pool's page, or what stands below it.
func PoolPath(id fleet.PoolID, below ...string) string { return pathOf(fleet.TypePool, id, below) }

// NetworkPath is a network's page, or what stands below it.
func NetworkPath(id fleet.NetworkID, below ...string) string {
	return pathOf(fleet.TypeNetwork, id, below)
}

// SecurityGroupPath is a security group's page, or what stands below it.
func SecurityGroupPath(id fleet.SecurityGroupID, below ...string) string {
	return pathOf(fleet.TypeSecurityGroup, id, below)
}

// CustomizationPath is a customization spec's page, or what stands below it.
func CustomizationPath(id fleet.CustomizationID, below ...string) string {
	return pathOf(fleet.TypeCustomization, id, below)
}

// ImagePath is an image's page, or what stands below it.
func ImagePath(id fleet.ImageID, below ...string) string { return pathOf(fleet.TypeImage, id, below) }

// TemplatePath is a template's page, or what stands below it.
func TemplatePath(id fleet.TemplateID, below ...string) string {
	return pathOf(fleet.TypeTemplate, id, below)
}

// ProjectPath is a project's page, or what stands below it.
func ProjectPath(id fleet.ProjectID, below ...string) string {
	return pathOf(fleet.TypeProject, id, below)
}

// UserPath is a user's page, or what stands below it.
func UserPath(id fleet.UserID, below ...string) string { return pathOf(fleet.TypeUser, id, below) }

// TaskPath is a task's page, or what stands below it.
func TaskPath(id fleet.TaskID, below ...string) string { return pathOf(fleet.TypeTask, id, below) }

// MenuPath is the menu of one thing.
func MenuPath[I ~string](n fleet.ResourceType, id I) string {
	return "/menus/" + n.Is().Label + "/" + url.PathEscape(string(id))
}

// TokenPath is what stands below one of one's own API tokens.
func TokenPath(id fleet.TokenID, below ...string) string {
	return joined("/account/tokens/"+url.PathEscape(string(id)), below)
}

// JoinTokenPath is what stands below a join token.
func JoinTokenPath(id fleet.JoinTokenID, below ...string) string {
	return joined("/hosts/join/"+url.PathEscape(string(id)), below)
}

// JoinAgainPath is where a host that is known is given a new identity.
func JoinAgainPath(id fleet.HostID) string {
	return withQuery("/hosts/join", "host="+url.QueryEscape(string(id)))
}

// JoinWatchPath is where one sees a host come that uses the token.
func JoinWatchPath(id fleet.JoinTokenID) string {
	return withQuery("/hosts/join", "token="+url.QueryEscape(string(id)))
}

// CutPath is the list of a noun, cut to a project.
func CutPath(n fleet.ResourceType, id fleet.ProjectID) string {
	return withQuery(n.Is().Path, "project="+url.QueryEscape(string(id)))
}

// TabPath is one tab of the page at path.
func TabPath(path, tab string) string { return withQuery(path, "tab="+tab) }

// SubjectLink is the page of what a task or an audit line is about; empty where it has none.
func SubjectLink(s fleet.Subject) string {
	noun, id := s.Split()
	return fleet.ResourceType(noun).Is().At(id)
}

func pathOf[I ~string](n fleet.ResourceType, id I, below []string) string {
	return joined(n.Is().At(string(id)), below)
}

func joined(path string, below []string) string {
	parts := []string{path}
	for _, part := range below {
		parts = append(parts, url.PathEscape(part))
	}
	return strings.Join(parts, "/")
}

// ListAddress is a list as a view shows it.
func ListAddress(list, query string) string { return withQuery("/"+list, query) }

// SavedViewsPath is the views that a person keeps of a list; query is that of the list as it is shown.
func SavedViewsPath(list, query string) string { return withQuery("/views/"+list, query) }

func withQuery(path, query string) string {
	if query == "" {
		return path
	}
	return path + "?" + query
}

// PlanPath is what would become of a VM, or what stands below it.
func PlanPath(id fleet.PlanID, below ...string) string {
	return joined("/plans/"+url.PathEscape(string(id)), below)
}

// ComparePath is the page of two VMs side by side; right empty: one is chosen there.
func ComparePath(left, right fleet.VMID) string {
	return compared(url.Values{"id": {string(left)}, "with": {string(right)}})
}

// CompareTemplatePath is the page of a VM and a version of a template; vm empty: one is chosen there.
func CompareTemplatePath(vm fleet.VMID, t fleet.TemplateID, v fleet.TemplateVersionID) string {
	return compared(url.Values{"id": {string(vm)}, "template": {TemplateVersionValue(t, v)}})
}

func compared(sides url.Values) string {
	maps.DeleteFunc(sides, func(_ string, v []string) bool { return v[0] == "" })
	return withQuery("/vms/compare", sides.Encode())
}

// TemplateVersionValue is a version of a template as a form names it.
func TemplateVersionValue(t fleet.TemplateID, v fleet.TemplateVersionID) string {
	return string(t) + "/" + string(v)
}

// HelpPath is the manual, or one of its chapters, or a heading of that.
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
