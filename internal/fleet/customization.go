package fleet

import "time"

// MaxCustomizations is the maximum number of customization specs of a project, and of those without a project.
const MaxCustomizations = 200

// CustomizationID identifies a customization spec.
type CustomizationID string

// Customization is a stored guest initialization for many VMs. Variables such as {{vm.name}} or {{var.color}} get a
// value per VM.
type Customization struct {
	ID          CustomizationID `json:"id"`
	ProjectID   ProjectID       `json:"projectId,omitempty"` // empty: fleet-wide, for the projects in Grants
	ProjectName string          `json:"projectName,omitempty"`
	Grants      []ProjectGrant  `json:"grants" doc:"projects that a fleet-wide spec is published to"`
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Kind        FirstBootKind   `json:"kind"`
	Variables   []string        `json:"variables,omitempty"` // variables whose values are given per VM
	Generation  int64           `json:"generation"`
	ChangedAt   time.Time       `json:"changedAt"`
	ChangedBy   string          `json:"changedBy"`
	Unreadable  string          `json:"unreadable,omitempty"` // why the portal cannot read the content
	FirstBoot   *FirstBoot      `json:"firstBoot,omitempty"`  // only for users who may change the customization
}

// UnchangedPassword replaces a stored password in responses, because passwords and their hashes are never shown. A
// request with this value leaves the stored password unchanged.
const UnchangedPassword = "kept"

// WithoutPasswordHashes returns the guest initialization as users who may change it see it: without password hashes.
func (f FirstBoot) WithoutPasswordHashes() FirstBoot {
	if f.CloudInit == nil {
		return f
	}
	form := *f.CloudInit
	form.Users = append([]FirstUser(nil), form.Users...)
	for i := range form.Users {
		if form.Users[i].PasswordHash != "" {
			form.Users[i].PasswordHash = UnchangedPassword
		}
	}
	f.CloudInit = &form
	return f
}

// WithUnchangedPasswords returns f with the password hash from stored for each user whose password is
// UnchangedPassword.
func (f FirstBoot) WithUnchangedPasswords(stored FirstBoot) FirstBoot {
	if f.CloudInit == nil || stored.CloudInit == nil {
		return f
	}
	form := *f.CloudInit
	form.Users = append([]FirstUser(nil), form.Users...)
	for i := range form.Users {
		for _, o := range stored.CloudInit.Users {
			if form.Users[i].PasswordHash == UnchangedPassword && o.Name == form.Users[i].Name {
				form.Users[i].PasswordHash = o.PasswordHash
			}
		}
	}
	f.CloudInit = &form
	return f
}
