package people

import (
	"quantix/internal/fleet"
	"quantix/views"
	"quantix/views/kit"
)

// ProjectForm is a project as a person typed it. ID empty: a new one.
type ProjectForm struct {
	ID                fleet.ProjectID
	Name, Description string
	Pool, Network     string // defaults of its new VMs, by id
	Pools, Networks   kit.Choices
	Errors            kit.Errors
}

func (f ProjectForm) title() string {
	if f.ID == "" {
		return "New project"
	}
	return "Edit project"
}

func (f ProjectForm) action() string {
	if f.ID == "" {
		return "/projects"
	}
	return views.ProjectPath(f.ID, "edit")
}

func (f ProjectForm) back() string {
	if f.ID == "" {
		return "/projects"
	}
	return views.ProjectPath(f.ID)
}

func (f ProjectForm) button() string {
	if f.ID == "" {
		return "Create project"
	}
	return "Save"
}
