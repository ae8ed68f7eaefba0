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

// named is a variable where it stands in a text.
var named = regexp.MustCompile(`\{\{ *((?:vm|var)\.[A-Za-z0-9_-]{1,64}) *\}\}`)

var (
	varForm = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)
	lastNum = regexp.MustCompile(`[0-9]{1,9}$`)
)

// Bounds of variables.
const (
	MaxVars = 32
	maxVar  = 1024 // bytes of a value
)

// Vars are what stands for {{vm.…}} and {{var.…}}.
type Vars struct {
	VM  map[string]string // name, id, project, mac and, where there are any, index and ip
	Own map[string]string // that are given for the VM
}

// VMVars are the variables that a VM has of itself. mac and ip: of its first card; empty: it has none.
func VMVars(id fleet.VMID, name, project, mac, ip string) map[string]string {
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

// vmVars are those that there can be, and what a VM without a value lacks.
var vmVars = map[string]string{
	"id": "", "name": "", "project": "",
	"mac":   "The VM has no network card, so it has no {{vm.mac}}. Give it a card.",
	"ip":    "No address is reserved for the VM's first network card, so it has no {{vm.ip}}. Reserve one, or write the address itself.",
	"index": "The VM's name ends in no number, so it has no {{vm.index}}. Name it such as web-01.",
}

// CheckVars notes what is wrong with the values that are given for a VM.
func CheckVars(c *fleet.Checks, at string, vars map[string]string) {
	if len(vars) > MaxVars {
		c.Add(at, "At most %d variables.", MaxVars)
	}
	for name, value := range vars {
		switch {
		case !varForm.MatchString(name):
			c.Add(at, "Variable %q: a name has 1–32 lower-case letters, digits, _ and -, and starts with a letter.", cut(name))
		case len(value) > maxVar || !line(value):
			c.Add(at, "The value of variable %s is one line of at most %d bytes.", name, maxVar)
		}
	}
}

// Names are the variables of its own that f names, which must be given.
func Names(f fleet.FirstBoot) []string {
	data, err := json.Marshal(f)
	if err != nil {
		return nil
	}
	var out []string
	seen := map[string]bool{}
	for _, m := range named.FindAllStringSubmatch(string(data), -1) {
		if name, own := strings.CutPrefix(m[1], "var."); own && !seen[name] {
			seen[name], out = true, append(out, name)
		}
	}
	return out
}

// Fill puts the values in the place of the variables, each within the word in which it is named: none becomes more than a part of it. What comes
// of it is to be checked as any other first boot.
func Fill(f fleet.FirstBoot, vars Vars) (fleet.FirstBoot, error) {
	var checks fleet.Checks
	in := filling{vars, &checks}
	switch f.Kind {
	case fleet.CloudInit:
		if f.CloudInit != nil {
			form, err := in.form(*f.CloudInit)
			if err != nil {
				return f, err
			}
			f.CloudInit = &form
		}
	case fleet.CloudConfig:
		var err error
		if f.UserData, err = in.yaml("userData", f.UserData, cloudHead+"\n"); err == nil {
			f.NetworkConfig, err = in.yaml("networkConfig", f.NetworkConfig, "")
		}
		if err != nil {
			return f, err
		}
	case fleet.Ignition:
		if named.MatchString(f.UserData) {
			top, err := readJSON(f.UserData)
			if err != nil {
				checks.Add("userData", "%s", err)
				break
			}
			text, err := json.Marshal(in.tree("userData", top))
			if err != nil {
				return f, err
			}
			f.UserData = string(text)
		}
	case fleet.Sysprep:
		f.UserData = in.replace("userData", f.UserData, escapeXML)
	}
	return f, checks.Err()
}

type filling struct {
	vars   Vars
	checks *fleet.Checks
}

// replace puts the values, written by escape, into a word.
func (in filling) replace(at, s string, escape func(string) string) string {
	return named.ReplaceAllStringFunc(s, func(m string) string {
		key := named.FindStringSubmatch(m)[1]
		value, ok := in.value(at, key)
		if !ok {
			return m
		}
		return escape(value)
	})
}

func (in filling) value(at, key string) (string, bool) {
	if own, is := strings.CutPrefix(key, "var."); is {
		v, ok := in.vars.Own[own]
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
			lacks = fmt.Sprintf("There is no variable {{%s}}: a VM has vm.name, vm.id, vm.project, vm.index, vm.mac and vm.ip.", cut(key))
		}
		in.checks.Add(at, "%s", lacks)
	}
	return v, ok
}

func same(s string) string { return s }

func escapeXML(s string) string {
	var out bytes.Buffer
	_ = xml.EscapeText(&out, []byte(s)) // a buffer takes all
	return out.String()
}

// form fills each word of a form, which is walked as its JSON.
func (in filling) form(f fleet.CloudInitForm) (out fleet.CloudInitForm, err error) {
	data, err := json.Marshal(f)
	if err != nil || !named.Match(data) {
		return f, err
	}
	var tree any
	if err := json.Unmarshal(data, &tree); err != nil {
		return f, err
	}
	if data, err = json.Marshal(in.tree("cloudInit", tree)); err != nil {
		return f, err
	}
	return out, json.Unmarshal(data, &out)
}

func (in filling) tree(at string, v any) any {
	switch v := v.(type) {
	case string:
		return in.replace(at, v, same)
	case []any:
		for i := range v {
			v[i] = in.tree(fmt.Sprintf("%s[%d]", at, i), v[i])
		}
	case map[string]any:
		for k := range v {
			next := at + "." + k
			if at == "userData" {
				next = at
			}
			v[k] = in.tree(next, v[k])
		}
	}
	return v
}

// yaml fills each word of a document; one that names no variable stays as it was written.
func (in filling) yaml(at, source, head string) (string, error) {
	if !named.MatchString(source) {
		return source, nil
	}
	doc, err := readYAML(source)
	if err != nil {
		in.checks.Add(at, "%s", err)
		return source, nil
	}
	in.nodes(at, doc.root)
	out, err := writeYAML(doc.root)
	return head + out, err
}

func (in filling) nodes(at string, n *yaml.Node) {
	n.HeadComment, n.LineComment, n.FootComment = "", "", ""
	if n.Kind == yaml.ScalarNode && named.MatchString(n.Value) {
		style := n.Style
		n.SetString(in.replace(at, n.Value, same))
		if style&(yaml.LiteralStyle|yaml.FoldedStyle) == 0 {
			n.Style = yaml.DoubleQuotedStyle // a word stays a word, whatever the value looks like
		}
	}
	for _, x := range n.Content {
		in.nodes(at, x)
	}
}
