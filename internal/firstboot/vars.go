package firstboot

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"quantix/internal/fleet"
)

// variableForm matches a variable in a text, such as {{vm.name}}.
var variableForm = regexp.MustCompile(`\{\{ *((?:vm|var)\.[A-Za-z0-9_-]{1,64}) *\}\}`)

var (
	varForm = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)
	lastNum = regexp.MustCompile(`[0-9]{1,9}$`)
)

// Limits of variables.
const (
	MaxVars = 32
	maxVar  = 1024 // bytes of a value
)

// VariableValues are the values of the variables {{vm.…}} and {{var.…}}.
type VariableValues struct {
	VM   map[string]string // name, id, project, mac; also index and ip if the VM has them
	User map[string]string // values that the user gave for this VM
}

// BuiltInVariables returns the built-in variables of a VM. mac and ip belong to its first NIC; empty if it has none.
func BuiltInVariables(id fleet.VMID, name, project, mac, ip string) map[string]string {
	out := map[string]string{"id": string(id), "name": name, "project": project}
	for key, value := range map[string]string{"mac": mac, "ip": ip, "index": strings.TrimLeft(lastNum.FindString(name), "0")} {
		if value != "" {
			out[key] = value
		}
	}
	if strings.HasSuffix(name, "0") && out["index"] == "" {
		out["index"] = "0"
	}
	return out
}

// vmVars are the built-in variables, each with the error text for a VM without a value.
var vmVars = map[string]string{
	"id": "", "name": "", "project": "",
	"mac":   "The VM has no NIC, so there is no {{vm.mac}}. Add a NIC.",
	"ip":    "No address is reserved for the VM's first NIC, so the VM has no {{vm.ip}}. Reserve an address, or write the address instead of the variable.",
	"index": "The VM's name ends in no number, so there is no {{vm.index}}. Give the VM a name such as web-01.",
}

// CheckVariables adds an error for each invalid variable of a VM.
func CheckVariables(c *fleet.Checks, at string, vars map[string]string) {
	if len(vars) > MaxVars {
		c.Add(at, "At most %d variables.", MaxVars)
	}
	for name, value := range vars {
		switch {
		case !varForm.MatchString(name):
			c.Add(at, "Variable %q: a name has 1–32 lower-case letters, digits, _ and -, and starts with a letter.", shortenForError(name))
		case len(value) > maxVar || !isSingleLine(value):
			c.Add(at, "The value of variable %s is one line of at most %d bytes.", name, maxVar)
		}
	}
}

// UserVariables returns the user variables that f contains. Each needs a value per VM.
func UserVariables(f fleet.FirstBoot) []string {
	data, err := json.Marshal(f)
	if err != nil {
		return nil
	}
	var out []string
	seen := map[string]bool{}
	for _, m := range variableForm.FindAllStringSubmatch(string(data), -1) {
		if name, own := strings.CutPrefix(m[1], "var."); own && !seen[name] {
			seen[name], out = true, append(out, name)
		}
	}
	return out
}

// FillVariables returns f with the variables replaced by their values. A value stays within the scalar or text that
// contains its variable. The caller must check the result with Check.
func FillVariables(f fleet.FirstBoot, vars VariableValues) (fleet.FirstBoot, error) {
	var checks fleet.Checks
	in := variableFiller{vars, &checks}
	switch f.Kind {
	case fleet.CloudInit:
		if f.CloudInit != nil {
			form, err := in.fillForm(*f.CloudInit)
			if err != nil {
				return f, err
			}
			f.CloudInit = &form
		}
	case fleet.CloudConfig:
		var err error
		if f.UserData, err = in.fillYAML("userData", f.UserData, cloudHead+"\n"); err == nil {
			f.NetworkConfig, err = in.fillYAML("networkConfig", f.NetworkConfig, "")
		}
		if err != nil {
			return f, err
		}
	case fleet.Ignition:
		if variableForm.MatchString(f.UserData) {
			top, err := readJSON(f.UserData)
			if err != nil {
				checks.Add("userData", "%s", err)
				break
			}
			text, err := json.Marshal(in.fillTree("userData", top))
			if err != nil {
				return f, err
			}
			f.UserData = string(text)
		}
	case fleet.Sysprep:
		f.UserData = in.replaceVariables("userData", f.UserData, escapeXML)
	}
	return f, checks.Err()
}

type variableFiller struct {
	vars   VariableValues
	checks *fleet.Checks
}

// replaceVariables replaces the variables in a text by their values, each encoded by escape.
func (in variableFiller) replaceVariables(at, s string, escape func(string) string) string {
	return variableForm.ReplaceAllStringFunc(s, func(m string) string {
		key := variableForm.FindStringSubmatch(m)[1]
		value, ok := in.variableValue(at, key)
		if !ok {
			return m
		}
		return escape(value)
	})
}

func (in variableFiller) variableValue(at, key string) (string, bool) {
	if own, is := strings.CutPrefix(key, "var."); is {
		v, ok := in.vars.User[own]
		if !ok {
			in.checks.Add(at, "Give a value for the variable %s.", own)
		}
		return v, ok
	}
	name := strings.TrimPrefix(key, "vm.")
	v, ok := in.vars.VM[name]
	if !ok {
		lacks, known := vmVars[name]
		if !known {
			lacks = fmt.Sprintf("There is no variable {{%s}}: a VM has vm.name, vm.id, vm.project, vm.index, vm.mac and vm.ip.", shortenForError(key))
		}
		in.checks.Add(at, "%s", lacks)
	}
	return v, ok
}

func noEscape(s string) string { return s }

func escapeXML(s string) string {
	var out bytes.Buffer
	_ = xml.EscapeText(&out, []byte(s)) // writes to a buffer never fail
	return out.String()
}

// fillForm fills in each text of a form. It converts the form to JSON and back, so that it reaches every text.
func (in variableFiller) fillForm(f fleet.CloudInitForm) (out fleet.CloudInitForm, err error) {
	data, err := json.Marshal(f)
	if err != nil || !variableForm.Match(data) {
		return f, err
	}
	var tree any
	if err := json.Unmarshal(data, &tree); err != nil {
		return f, err
	}
	if data, err = json.Marshal(in.fillTree("cloudInit", tree)); err != nil {
		return f, err
	}
	return out, json.Unmarshal(data, &out)
}

func (in variableFiller) fillTree(at string, v any) any {
	switch v := v.(type) {
	case string:
		return in.replaceVariables(at, v, noEscape)
	case []any:
		for i := range v {
			v[i] = in.fillTree(fmt.Sprintf("%s[%d]", at, i), v[i])
		}
	case map[string]any:
		for k := range v {
			next := at + "." + k
			if at == "userData" {
				next = at
			}
			v[k] = in.fillTree(next, v[k])
		}
	}
	return v
}

// fillYAML fills in each scalar of a document. It returns a document without variables unchanged.
func (in variableFiller) fillYAML(at, source, head string) (string, error) {
	if !variableForm.MatchString(source) {
		return source, nil
	}
	doc, err := readYAML(source)
	if err != nil {
		in.checks.Add(at, "%s", err)
		return source, nil
	}
	in.fillNodes(at, doc.root)
	out, err := writeYAML(doc.root)
	return head + out, err
}

func (in variableFiller) fillNodes(at string, n *yaml.Node) {
	n.HeadComment, n.LineComment, n.FootComment = "", "", ""
	if n.Kind == yaml.ScalarNode && variableForm.MatchString(n.Value) {
		style := n.Style
		n.SetString(in.replaceVariables(at, n.Value, noEscape))
		if style&(yaml.LiteralStyle|yaml.FoldedStyle) == 0 {
			n.Style = yaml.DoubleQuotedStyle // quoted, so that every value stays a string
		}
	}
	for _, x := range n.Content {
		in.fillNodes(at, x)
	}
}
