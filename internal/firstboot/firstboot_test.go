package firstboot_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"quantix/internal/firstboot"
	"quantix/internal/fleet"
)

const key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHKqsL5yCzDzZrGpFhO6mZQvVOSyCzDzZrGpFhO6mZQv anna@desk"

func fullForm() fleet.CloudInitForm {
	return fleet.CloudInitForm{
		Hostname: "web-01.example.org", Timezone: "Europe/Zurich", Locale: "en_GB.UTF-8",
		Users: []fleet.FirstUser{
			{Name: "anna", SSHKeys: []string{key}, Sudo: true, Groups: []string{"adm"}, Shell: "/bin/sh"},
			{Name: "ben", PasswordHash: "$6$rounds=100000$abcdefgh$0123456789abcdef"},
		},
		SSHPassword: true,
		Network: []fleet.FirstBootNIC{
			{MAC: "52:54:00:00:00:01", Addresses: []string{"192.0.2.10/24", "2001:db8::10/64"}, Gateways: []string{"192.0.2.1", "fe80::1"}, DNS: []string{"192.0.2.53"}, Search: []string{"example.org"}},
			{MAC: "52:54:00:00:00:02"},
		},
		Upgrade: true, Packages: []string{"nginx", "postgresql-15=15.3-0+deb12u1"},
		Files: []fleet.FirstFile{{Path: "/etc/motd", Content: "yes: 'no'\n# \"0644\"\n", Mode: "0644", Owner: "root:root"}},
		Run:   []string{"echo yes: no", "0644", "- a", "# x", "on"},
	}
}

func withForm(f fleet.CloudInitForm) fleet.FirstBoot {
	return fleet.FirstBoot{Kind: fleet.CloudInit, CloudInit: &f}
}

func checkError(f fleet.FirstBoot, template bool) error {
	var c fleet.Checks
	firstboot.Check(&c, "firstBoot", f, template)
	return c.Err()
}

// The user-data that a form produces must match cloud-init's schema and contain each value unchanged.
func TestFormUserDataMatchesSchema(t *testing.T) {
	t.Parallel()
	f := withForm(fullForm())
	if err := checkError(f, false); err != nil {
		t.Fatal(err)
	}
	files, err := firstboot.RenderFiles(f, firstboot.GuestInstance{ID: "5f9d", Name: "web-01", Number: 2})
	if err != nil {
		t.Fatal(err)
	}
	if err := checkError(fleet.FirstBoot{Kind: fleet.CloudConfig, UserData: string(files["user-data"]), NetworkConfig: string(files["network-config"])}, false); err != nil {
		t.Errorf("user-data refused: %v\n%s", err, files["user-data"])
	}
	var errText map[string]any
	if err := yaml.Unmarshal(files["user-data"], &errText); err != nil {
		t.Fatal(err)
	}
	if got := errText["runcmd"]; !cmp.Equal(got, []any{"echo yes: no", "0644", "- a", "# x", "on"}) {
		t.Errorf("the commands are %v", got)
	}
	if got := errText["write_files"].([]any)[0].(map[string]any); got["content"] != "yes: 'no'\n# \"0644\"\n" || got["permissions"] != "0644" {
		t.Errorf("the file is %v", got)
	}
	var meta map[string]any
	if err := yaml.Unmarshal(files["meta-data"], &meta); err != nil || meta["instance-id"] != "5f9d-2" || meta["local-hostname"] != "web-01.example.org" {
		t.Errorf("the meta-data is %v, %v", meta, err)
	}
	for _, require := range []string{`macaddress: "52:54:00:00:00:01"`, "dhcp4: true", "via: 192.0.2.1", "::/0"} {
		if !strings.Contains(string(files["network-config"]), require) {
			t.Errorf("network-config lacks %q:\n%s", require, files["network-config"])
		}
	}
}

func TestPasswordsStoredHashed(t *testing.T) {
	t.Parallel()
	f := withForm(fleet.CloudInitForm{Users: []fleet.FirstUser{{Name: "anna", Password: "correct horse"}, {Name: "ben", Password: "correct horse"}}})
	out, err := firstboot.HashPasswords(f)
	if err != nil {
		t.Fatal(err)
	}
	a, b := out.CloudInit.Users[0], out.CloudInit.Users[1]
	if a.Password != "" || !strings.HasPrefix(a.PasswordHash, "$6$rounds=100000$") || a.PasswordHash == b.PasswordHash {
		t.Errorf("stored: %+v and %+v", a, b)
	}
	if f.CloudInit.Users[0].Password == "" {
		t.Error("the input was changed")
	}
	if err := checkError(out, false); err != nil {
		t.Error(err)
	}
}

// A user without a name is the image's default user. cloud-init takes the password of that user from "password" and the
// keys from "ssh_authorized_keys".
func TestUserWithoutNameIsTheImagesDefaultUser(t *testing.T) {
	t.Parallel()
	written := func(users ...fleet.FirstUser) map[string]any {
		t.Helper()
		f := withForm(fleet.CloudInitForm{Users: users, SSHPassword: true})
		if err := checkError(f, false); err != nil {
			t.Fatal(err)
		}
		f, err := firstboot.HashPasswords(f)
		if err != nil {
			t.Fatal(err)
		}
		if err := checkError(f, false); err != nil {
			t.Fatalf("the hash is refused: %v", err)
		}
		files, err := firstboot.RenderFiles(f, firstboot.GuestInstance{ID: "5f9d", Name: "web-01", Number: 1})
		if err != nil {
			t.Fatal(err)
		}
		if err := checkError(fleet.FirstBoot{Kind: fleet.CloudConfig, UserData: string(files["user-data"])}, false); err != nil {
			t.Errorf("cloud-init's schema refuses it: %v\n%s", err, files["user-data"])
		}
		var out map[string]any
		if err := yaml.Unmarshal(files["user-data"], &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	got := written(fleet.FirstUser{Password: "correct horse", SSHKeys: []string{key}})
	if hash, _ := got["password"].(string); !strings.HasPrefix(hash, "$6$rounds=100000$") {
		t.Errorf("the password is %v", got["password"])
	}
	if !cmp.Equal(got["chpasswd"], map[string]any{"expire": false}) || got["ssh_pwauth"] != true || !cmp.Equal(got["ssh_authorized_keys"], []any{key}) {
		t.Errorf("the user-data is %v", got)
	}
	if got["users"] != nil {
		t.Errorf("the image's default user is replaced: %v", got)
	}
	got = written(fleet.FirstUser{Password: "correct horse"}, fleet.FirstUser{Name: "anna", SSHKeys: []string{key}})
	users, _ := got["users"].([]any)
	if len(users) != 2 || users[0] != "default" {
		t.Errorf("the users are %v", got["users"])
	}
}

func TestCommonUserDataAccepted(t *testing.T) {
	t.Parallel()
	for what, text := range map[string]string{
		"nothing but its head and a key": "#cloud-config\npackage_update: yes\n",
		"a common configuration": `#cloud-config
users:
  - default
  - name: anna
    groups: [adm, sudo]
    ssh_authorized_keys: ["` + key + `"]
    lock_passwd: false
chpasswd: {expire: off, list: ["anna:secret"]}
write_files:
  - path: /etc/motd
    permissions: '0644'
    content: |
      yes
      {{ .Names }}
packages: [nginx, [htop, "3.0"]]
runcmd:
  - echo hello
  - [touch, /root/done]
power_state: {mode: poweroff, delay: now}
growpart: {mode: auto}
ssh_pwauth: true
`,
	} {
		if err := checkError(fleet.FirstBoot{Kind: fleet.CloudConfig, UserData: text}, false); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, text := range []string{"version: 2\nethernets: {eth0: {dhcp4: true}}\n", "network:\n  version: 1\n  config: [{type: physical, name: eth0}]\n"} {
		if err := checkError(fleet.FirstBoot{Kind: fleet.CloudConfig, UserData: "#cloud-config\npackages: [a]\n", NetworkConfig: text}, false); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

const answers = `<?xml version="1.0" encoding="utf-8"?>
<unattend xmlns="urn:schemas-microsoft-com:unattend">
  <settings pass="specialize"><component name="Microsoft-Windows-Shell-Setup"><ComputerName>{{vm.name}}</ComputerName></component></settings>
</unattend>`

// A value stays within the YAML, JSON or XML scalar that contains its variable, even if the value itself contains YAML,
// JSON or XML.
func TestVariableValueStaysWithinItsScalar(t *testing.T) {
	t.Parallel()
	for _, hostile := range []string{`x"], runcmd: [evil]`, "yes", "0644", "a: b", "'", "# x", "{{var.x}}", "&a *a", "</ComputerName><evil/>", "]]>", "--><evil/>", "- a", "|", "!!binary x", "\\", "%x", "@x", "`x", "null", "12:30", "2024-01-01"} {
		vars := firstboot.VariableValues{VM: firstboot.BuiltInVariables("id", "web-07", "shop", "52:54:00:00:00:01", ""), User: map[string]string{"x": hostile}}
		raw := "#cloud-config\nruncmd:\n  - \"echo {{var.x}}\"\n  - '{{ var.x }}'\n  - a-{{var.x}}\n  - |\n    block {{var.x}}\npackages: [a]\n"
		out, err := firstboot.FillVariables(fleet.FirstBoot{Kind: fleet.CloudConfig, UserData: raw}, vars)
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]any
		if err := yaml.Unmarshal([]byte(out.UserData), &got); err != nil {
			t.Errorf("%q: %v\n%s", hostile, err, out.UserData)
			continue
		}
		if require := []any{"echo " + hostile, hostile, "a-" + hostile, "block " + hostile + "\n"}; !cmp.Equal(got["runcmd"], require) || len(got) != 2 {
			t.Errorf("%q became %q in\n%s", hostile, got["runcmd"], out.UserData)
		}
		if err := checkError(out, false); err != nil {
			t.Errorf("%q: %v\n%s", hostile, err, out.UserData)
		}

		form, err := firstboot.FillVariables(withForm(fleet.CloudInitForm{Hostname: "{{vm.name}}", Run: []string{"echo {{var.x}} {{vm.index}}"}}), vars)
		if err != nil || form.CloudInit.Run[0] != "echo "+hostile+" 7" || form.CloudInit.Hostname != "web-07" {
			t.Errorf("%q became %+v, %v", hostile, form.CloudInit, err)
		}

		file := strings.Replace(answers, "{{vm.name}}", "{{var.x}}", 1) + "<!-- {{var.x}} -->"
		windows, err := firstboot.FillVariables(fleet.FirstBoot{Kind: fleet.Sysprep, UserData: file}, vars)
		if err != nil {
			t.Fatal(err)
		}
		if err := checkError(windows, false); err != nil && !strings.Contains(errorMessage(err), "not allowed in comments") || strings.Contains(windows.UserData, "<evil/>") {
			t.Errorf("%q: %v in\n%s", hostile, err, windows.UserData)
		}

		ignition, err := firstboot.FillVariables(fleet.FirstBoot{Kind: fleet.Ignition, UserData: `{"ignition": {"version": "3.4.0"}, "passwd": {"users": [{"name": "{{var.x}}"}]}}`}, vars)
		if err != nil {
			t.Fatal(err)
		}
		if err := checkError(ignition, false); err != nil {
			t.Errorf("%q: %v in\n%s", hostile, err, ignition.UserData)
		}
	}
}

func TestMissingVariablesExplained(t *testing.T) {
	t.Parallel()
	for text, require := range map[string]string{
		"{{var.color}}": "Give a value for the variable color.",
		"{{vm.index}}":  "ends in no number",
		"{{vm.ip}}":     "No address is reserved",
		"{{vm.mac}}":    "has no NIC",
		"{{vm.secret}}": "There is no variable {{vm.secret}}",
	} {
		vars := firstboot.VariableValues{VM: firstboot.BuiltInVariables("id", "web", "shop", "", "")}
		for _, f := range []fleet.FirstBoot{
			withForm(fleet.CloudInitForm{Run: []string{text}}),
			{Kind: fleet.CloudConfig, UserData: "#cloud-config\nruncmd: [\"" + text + "\"]\n"},
			{Kind: fleet.Sysprep, UserData: strings.Replace(answers, "{{vm.name}}", text, 1)},
			{Kind: fleet.Ignition, UserData: `{"ignition": {"version": "` + text + `"}}`},
		} {
			if _, err := firstboot.FillVariables(f, vars); err == nil || !strings.Contains(errorMessage(err), require) {
				t.Errorf("%s in %s: %q", text, f.Kind, errorMessage(err))
			}
		}
	}
	if got := firstboot.UserVariables(withForm(fleet.CloudInitForm{Run: []string{"{{var.a}} {{ var.b }} {{var.a}} {{.x}} {{vm.name}}"}})); !cmp.Equal(got, []string{"a", "b"}) {
		t.Errorf("the variables are %v", got)
	}
}

func TestTemplateAllowsVariablesAsValues(t *testing.T) {
	t.Parallel()
	f := withForm(fleet.CloudInitForm{
		Hostname: "{{vm.name}}.example.org", Network: []fleet.FirstBootNIC{{Addresses: []string{"{{var.ip}}/24"}, Gateways: []string{"192.0.2.1"}}},
		Users: []fleet.FirstUser{{Name: "{{var.user}}", SSHKeys: []string{"{{var.key}}"}}},
	})
	if err := checkError(f, true); err != nil {
		t.Error(err)
	}
	if err := checkError(f, false); err == nil {
		t.Error("accepted with variables")
	}
}

func FuzzUserData(f *testing.F) {
	for _, text := range []string{"#cloud-config\npackages: [a]\n", "#cloud-config\na: &a [*a]\n", "#cloud-config\n" + strings.Repeat("[", 100), "#cloud-config\n? {{vm.name}}\n: 1\n", "#cloud-config\nruncmd: ['{{var.x}}']\n"} {
		f.Add(text, "value")
	}
	f.Fuzz(func(t *testing.T, source, value string) {
		raw := fleet.FirstBoot{Kind: fleet.CloudConfig, UserData: source}
		if checkError(raw, true) != nil {
			return
		}
		vars := map[string]string{"x": value}
		var c fleet.Checks
		if firstboot.CheckVariables(&c, "vars", vars); c.Err() != nil {
			return
		}
		out, err := firstboot.FillVariables(raw, firstboot.VariableValues{VM: firstboot.BuiltInVariables("id", "web-1", "shop", "52:54:00:00:00:01", "192.0.2.1"), User: vars})
		if err != nil {
			return
		}
		var before, after any
		if yaml.Unmarshal([]byte(source), &before) != nil {
			return
		}
		if err := yaml.Unmarshal([]byte(out.UserData), &after); err != nil {
			t.Errorf("the filled text is no YAML: %v\n%q", err, out.UserData)
		}
		if countValues(before) != countValues(after) {
			t.Errorf("the filled text has another shape:\n%q\n%q", source, out.UserData)
		}
	})
}

// countValues counts a document's values.
func countValues(v any) int {
	n := 1
	switch v := v.(type) {
	case []any:
		for _, x := range v {
			n += countValues(x)
		}
	case map[string]any:
		for _, x := range v {
			n += countValues(x)
		}
	}
	return n
}
