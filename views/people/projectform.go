package people

import (
	"quantix/internal/fleet"
	"quantix/views"
	"quantix/views/kit"
)

// ProjectForm is the form of a project, as typed. An empty ID is a new project.
type ProjectForm struct {
	ID                fleet.ProjectID
	Name, Description string
	Pool, Network     string // ids of the default pool and network for new VMs
	Pools, Networks   kit.SelectChoices
	Errors            kit.Errors
}

func (f ProjectForm) title() string {
	if f.ID == "" {
		return "New project"
	}
	return "Edit project"
}

func (f ProjectForm) submitPath() string {
	if f.ID == "" {
		return "/projects"
	}
	return views.ProjectPath(f.ID, "edit")
}

func (f ProjectForm) backPath() string {
	if f.ID == "" {
		return "/projects"
	}
	return views.ProjectPath(f.ID)
}

func (f ProjectForm) submitLabel() string {
	if f.ID == "" {
		return "Create project"
	}
	return "Save"
}
