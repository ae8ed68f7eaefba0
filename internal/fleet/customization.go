package fleet

import "time"

// MaxCustomizations is how many customization specs a project may have, and the fleet.
const MaxCustomizations = 200

// Customization is a first boot that is kept to be used for many VMs. Where it names a variable, such as {{vm.name}} or {{var.color}}, each VM gets
// its own value.
type Customization struct {
	ID          CustomizationID `json:"id"`
	ProjectID   ProjectID       `json:"projectId,omitempty"` // empty: the fleet's, which every project may use
	ProjectName string          `json:"projectName,omitempty"`
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Kind        FirstBootKind   `json:"kind"`
	Variables   []string        `json:"variables,omitempty"` // those that are given for each VM
	Generation  int64           `json:"generation"`
	ChangedAt   time.Time       `json:"changedAt"`
	ChangedBy   string          `json:"changedBy"`
	Unreadable  string          `json:"unreadable,omitempty"` // why the portal cannot read what it says; likewise
	FirstBoot   *FirstBoot      `json:"firstBoot,omitempty"`  // for those alone who may change it
}

// UnchangedPassword stands for the password of a user as it is kept: nobody is shown it, hashed or not. Given back it stays.
const UnchangedPassword = "kept"

// Shown is the first boot as people who may change it see it: without hashes of passwords.
func (f FirstBoot) Shown() FirstBoot {
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

// WithUnchangedPasswords is f with the hashes that had has of the users whose password stays.
func (f FirstBoot) WithUnchangedPasswords(had FirstBoot) FirstBoot {
	if f.CloudInit == nil || had.CloudInit == nil {
		return f
	}
	form := *f.CloudInit
	form.Users = append([]FirstUser(nil), form.Users...)
	for i := range form.Users {
		for _, o := range had.CloudInit.Users {
			if form.Users[i].PasswordHash == UnchangedPassword && o.Name == form.Users[i].Name {
				form.Users[i].PasswordHash = o.PasswordHash
			}
		}
	}
	f.CloudInit = &form
	return f
}
