package vmpages

import (
	"cmp"
	"net/url"
	"strings"

	"quantix/internal/control"
	"quantix/internal/fleet"
	vmview "quantix/views/vm"
)

const firstBootPrefix = "firstBoot.cloudInit."

// firstBootFromForm reads the first-boot data from the form; nil: none. Data that the form does not show, such as
// further users and files, come from had.
func firstBootFromForm(checks *fleet.Checks, typed url.Values, had fleet.FirstBoot) *control.FirstBootInput {
	text := func(name string) string { return strings.TrimSpace(typed.Get(firstBootPrefix + name)) }
	out := &control.FirstBootInput{}
	switch kind := typed.Get(vmview.FirstBootKindField); kind {
	case "":
		return nil
	case vmview.FirstBootKeepCurrent:
		out.Again = true
	case vmview.FirstBootBySpec:
		out.CustomizationID = fleet.CustomizationID(typed.Get(vmview.FirstBootSpecField))
		if out.CustomizationID == "" {
			checks.Add(vmview.FirstBootSpecField, "Choose a customization spec.")
		}
		out.Variables = parseKeyValueLines(checks, vmview.FirstBootVariablesField, typed.Get(vmview.FirstBootVariablesField))
	case string(fleet.CloudInit):
		form := fleet.CloudInitForm{}
		if had.CloudInit != nil {
			form = *had.CloudInit
		}
		form.Hostname, form.Timezone, form.Locale = text("hostname"), text("timezone"), text("locale")
		form.SSHPassword, form.Upgrade = text("sshPassword") != "", text("upgrade") != ""
		form.Packages, form.Run = splitLines(text("packages")), splitLines(text("run"))
		form.Network = parseFirstBootNICs(checks, vmview.FirstBootNetworkField, text("network"))
		form.Users = firstBootUsersFromForm(typed, form.Users)
		out.Kind, out.CloudInit = fleet.CloudInit, &form
	default:
		out.Kind = fleet.FirstBootKind(kind)
		out.UserData = strings.ReplaceAll(typed.Get("firstBoot.userData"), "\r\n", "\n")
		if out.Kind == fleet.CloudConfig {
			out.NetworkConfig = strings.ReplaceAll(typed.Get("firstBoot.networkConfig"), "\r\n", "\n")
		}
	}
	return out
}

// firstBootUsersFromForm returns the users in had, with the typed user as the first one. An empty name means the
// image's default user. If the form has no value about a user, there is no first user.
func firstBootUsersFromForm(typed url.Values, had []fleet.FirstUser) []fleet.FirstUser {
	const at = firstBootPrefix + "users[0]."
	u := fleet.FirstUser{}
	if len(had) > 0 {
		u, had = had[0], had[1:]
	}
	kept := u.Name
	u.Name, u.Sudo, u.SSHKeys, u.Password = strings.TrimSpace(typed.Get(at+"name")), typed.Get(at+"sudo") != "", splitLines(typed.Get(at+"sshKeys")), typed.Get(at+"password")
	if u.Password != "" || u.Name != kept || typed.Get(vmview.FirstBootPasswordHashField) == "" {
		u.PasswordHash = ""
	}
	if u.Name == "" && u.Password == "" && u.PasswordHash == "" && len(u.SSHKeys) == 0 {
		return had
	}
	return append([]fleet.FirstUser{u}, had...)
}

func splitLines(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			out = append(out, line)
		}
	}
	return out
}

func parseKeyValueLines(checks *fleet.Checks, field, text string) map[string]string {
	out := map[string]string{}
	for _, line := range splitLines(text) {
		name, value, ok := strings.Cut(line, "=")
		if !ok {
			checks.Add(field, "Write one value per line as name=value; %q has no \"=\".", line)
			continue
		}
		out[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	return out
}

// parseFirstBootNICs parses NICs in the format of vmview.FirstBootNICLines.
func parseFirstBootNICs(checks *fleet.Checks, field, text string) []fleet.FirstBootNIC {
	var out []fleet.FirstBootNIC
	for _, line := range splitLines(text) {
		var n fleet.FirstBootNIC
		into := map[string]*[]string{"via": &n.Gateways, "dns": &n.DNS, "search": &n.Search}
		words := strings.Fields(line)
		for i := 0; i < len(words); i++ {
			list, named := into[words[i]]
			switch {
			case words[i] == "dhcp":
			case named && i+1 < len(words):
				i++
				*list = append(*list, words[i])
			case named:
				checks.Add(field, "Write an address after %q.", words[i])
			default:
				n.Addresses = append(n.Addresses, words[i])
			}
		}
		out = append(out, n)
	}
	return out
}

// fillFirstBootForm fills the form's fields from existing first-boot data.
func fillFirstBootForm(typed url.Values, f fleet.FirstBoot) {
	typed.Set(vmview.FirstBootKindField, string(f.Kind))
	typed.Set("firstBoot.userData", f.UserData)
	typed.Set("firstBoot.networkConfig", f.NetworkConfig)
	if f.CloudInit == nil {
		return
	}
	set := func(name, text string) { typed.Set(firstBootPrefix+name, text) }
	box := func(name string, on bool) {
		if on {
			set(name, "yes")
		}
	}
	c := f.CloudInit
	set("hostname", c.Hostname)
	set("timezone", c.Timezone)
	set("locale", c.Locale)
	set("network", vmview.FirstBootNICLines(c.Network))
	set("packages", strings.Join(c.Packages, "\n"))
	set("run", strings.Join(c.Run, "\n"))
	box("upgrade", c.Upgrade)
	box("sshPassword", c.SSHPassword)
	if len(c.Users) > 0 {
		u := c.Users[0]
		set("users[0].name", u.Name)
		set("users[0].sshKeys", strings.Join(u.SSHKeys, "\n"))
		set("users[0].passwordHash", u.PasswordHash)
		box("users[0].sudo", u.Sudo)
	}
}

// firstBootDataOutsideForm returns a sentence about the first-boot data that the form does not show and saving does not
// change. It is empty if the form shows all data.
func firstBootDataOutsideForm(f fleet.FirstBoot) string {
	var out []string
	if f.CloudInit != nil {
		if n := len(f.CloudInit.Users); n > 1 {
			out = append(out, "users "+firstBootUserNames(f.CloudInit.Users[1:]))
		}
		for _, w := range f.CloudInit.Files {
			out = append(out, "the file "+w.Path)
		}
	}
	if len(out) == 0 {
		return ""
	}
	return "Also set by the API, and not changed here: " + strings.Join(out, ", ") + "."
}

func firstBootUserNames(users []fleet.FirstUser) string {
	var out []string
	for _, u := range users {
		out = append(out, cmp.Or(u.Name, vmview.DefaultUserLabel))
	}
	return strings.Join(out, ", ")
}
