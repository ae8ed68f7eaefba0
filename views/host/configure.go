package host

import "quantix/views/kit"

// SettingsForm holds a host's editable settings, as typed.
type SettingsForm struct {
	Labels, Taints, Description string
	Generation                  int64
	Errors                      kit.Errors
}
