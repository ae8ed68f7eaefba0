// Package shell renders the layout around each page (top bar, inventory tree and task dock), and the error pages.
package shell

import (
	"cmp"
	"net/url"
	"strings"
	"time"

	"github.com/a-h/templ"

	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// PageLayout is the data of the layout around a signed-in user's page. A handler sets the fields up to Scripts; package
// web/render fills the others.
type PageLayout struct {
	Title      string          // title of the browser's tab: "web-01"
	ObjectKeys []string        // keys of the page's object, outermost first: "host:<id>", "vm:<id>"; marks the tree's row
	Project    fleet.ProjectID // project filter of the page; empty: all
	Scripts    []string        // further scripts of the page: "bundle/console.js"

	Actor           fleet.Actor
	Now             time.Time // time of rendering
	Path            string    // path of the request
	Query           url.Values
	ProjectName     string // name of Project; empty: the user may see no such project
	UnfinishedTasks int    // number of waiting and running tasks
	Tree            TreeLevel
	Dock            TaskDock
	IsErrorPage     bool // error page: render only known values, without queries
}

// ActorMay reports whether the user has the permission in any project.
func (f PageLayout) ActorMay(r policy.Permission) bool { return policy.May(f.Actor, r, "") }

// userAttrs marks the page with the signed-in user.
func (f PageLayout) userAttrs() templ.Attributes {
	if f.Actor.UserID == "" {
		return nil
	}
	return templ.Attributes{"data-user": string(f.Actor.UserID)}
}

func (f PageLayout) projectName() string {
	if f.Project == "" {
		return "All projects"
	}
	return cmp.Or(f.ProjectName, "No such project")
}

// HasProjectFilter reports whether the page at path is a list with a project filter.
func HasProjectFilter(path string) bool {
	t, _ := fleet.ResourceTypeByPlural(strings.TrimPrefix(path, "/"))
	return t.Path == path && t.FilterableByProject()
}
