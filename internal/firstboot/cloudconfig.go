package firstboot

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"quantix/internal/fleet"
)

// cloudSchema is cloud-init's own schema of cloud-config, version 22.4, under its Apache-2.0 licence: see
// schema/README.
//
//go:embed schema/cloud-config.json
var cloudSchema []byte

const cloudHead = "#cloud-config"

// schema is the cloud-init schema, compiled on first use. It has no external references, so nothing is fetched.
var schema = sync.OnceValues(func() (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(cloudSchema))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(jsonschema.SchemeURLLoader{})
	if err := c.AddResource("cloud-config.json", doc); err != nil {
		return nil, err
	}
	return c.Compile("cloud-config.json")
})

// cloudKeys are cloud-init's top-level keys: the keys in the schema, and the keys of newer versions, which are listed
// here.
var cloudKeys = sync.OnceValue(func() map[string]bool {
	out := map[string]bool{}
	for _, k := range []string{
		"ansible", "bootcmd", "cloud_config_modules", "cloud_final_modules", "cloud_init_modules", "create_hostname_file", "datasource", "datasource_list", "debug",
		"disable_ec2_metadata", "manual_cache_clean", "merge_how", "merge_type", "mounts", "output", "raspberry_pi", "reporting", "rpi", "syslog_fix_perms", "system_info",
		"ubuntu_pro", "users", "version", "network",
	} {
		out[k] = true
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(cloudSchema))
	if err != nil {
		return out
	}
	defs, _ := doc.(map[string]any)["$defs"].(map[string]any)
	for name, d := range defs {
		if strings.HasPrefix(name, "cc_") || name == "base_config" || name == "reporting_config" {
			addSchemaKeys(out, d)
		}
	}
	return out
})

func addSchemaKeys(out map[string]bool, schema any) {
	s, _ := schema.(map[string]any)
	properties, _ := s["properties"].(map[string]any)
	for k := range properties {
		out[k] = true
	}
	for _, of := range []string{"allOf", "anyOf", "oneOf"} {
		all, _ := s[of].([]any)
		for _, a := range all {
			addSchemaKeys(out, a)
		}
	}
}

// checkCloudConfig checks the user-data of cloud-init.
func (in checker) checkCloudConfig(field, source string) {
	switch {
	case strings.TrimSpace(source) == "":
		in.add(field, "Give the user-data.")
		return
	case len(source) > fleet.MaxUserData:
		in.add(field, "User-data has at most %d KiB.", fleet.MaxUserData>>10)
		return
	}
	first, _, _ := strings.Cut(source, "\n")
	if strings.TrimRight(first, " \t\r") != cloudHead {
		in.add(field, "Line 1: User-data begins with the line %s. Scripts and other formats are not accepted: put commands below runcmd.", cloudHead)
		return
	}
	if err := checkCloudConfig(source); err != nil {
		in.add(field, "%s", err)
	}
}

func checkCloudConfig(source string) error {
	doc, err := readYAML(source)
	if err != nil {
		return err
	}
	top, ok := doc.tree.(map[string]any)
	if !ok {
		return docError{doc.root.Line, "User-data is keys with their values, such as \"packages: [nginx]\"."}
	}
	for _, key := range slices.Sorted(maps.Keys(top)) {
		if !cloudKeys()[key] {
			return docError{lineOfKey(doc, key), fmt.Sprintf("cloud-init knows no %s.", shortenForError(key))}
		}
	}
	s, err := schema()
	if err != nil {
		return fmt.Errorf("read cloud-init's schema: %w", err)
	}
	err = s.Validate(doc.tree)
	if wrong, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		deep := deepestError(wrong)
		at := strings.Join(deep.InstanceLocation, ".")
		if at == "" {
			at = "user-data"
		}
		return docError{lineOfPath(doc.root, deep.InstanceLocation), fmt.Sprintf("cloud-init does not accept %s: %s.", shortenTo(at, 100), shortenTo(deep.ErrorKind.LocalizedString(english), 200))}
	}
	return err
}

func lineOfKey(doc yamlDocument, key string) int {
	for i := 0; i+1 < len(doc.root.Content); i += 2 {
		if doc.root.Content[i].Value == key {
			return doc.root.Content[i].Line
		}
	}
	return doc.root.Line
}

var english = message.NewPrinter(language.English)

// deepestError returns the error at the deepest place in the document, which is the most specific one. If several are
// equally deep, it returns the first.
func deepestError(e *jsonschema.ValidationError) *jsonschema.ValidationError {
	best := e
	if _, ok := e.ErrorKind.(*kind.Schema); ok && len(e.Causes) > 0 {
		best = e.Causes[0]
	}
	for i, c := range e.Causes {
		d := deepestError(c)
		if i == 0 && len(d.InstanceLocation) >= len(best.InstanceLocation) || len(d.InstanceLocation) > len(best.InstanceLocation) {
			best = d
		}
	}
	return best
}

// networkKeys are the keys of a network-config of version 2. The values of all but version and renderer are mappings.
var networkKeys = []string{"bonds", "bridges", "ethernets", "renderer", "tunnels", "version", "vlans", "wifis"}

// networkTypes are the device types in a network-config of version 1.
var networkTypes = []string{"bond", "bridge", "infiniband", "loopback", "nameserver", "physical", "route", "vlan"}

// checkNetworkConfig checks a network-config of version 1 or 2.
func (in checker) checkNetworkConfig(field, source string) {
	switch {
	case source == "":
		return
	case len(source) > fleet.MaxNetworkConfig:
		in.add(field, "A network-config has at most %d KiB.", fleet.MaxNetworkConfig>>10)
		return
	}
	if err := checkNetworkConfig(source); err != nil {
		in.add(field, "%s", err)
	}
}

func checkNetworkConfig(source string) error {
	doc, err := readYAML(source)
	if err != nil {
		return err
	}
	top, ok := doc.tree.(map[string]any)
	if inner, wrapped := top["network"]; ok && wrapped {
		if len(top) > 1 {
			return docError{doc.root.Line, "\"network\" must be the only key."}
		}
		top, ok = inner.(map[string]any)
	}
	if !ok {
		return docError{doc.root.Line, "A network-config is keys with their values, such as \"version: 2\"."}
	}
	switch top["version"] {
	case int64(1):
		return checkNetworkV1(doc, top)
	case int64(2):
		return checkNetworkV2(doc, top)
	}
	return docError{doc.root.Line, "Say which version the network-config has: \"version: 1\" or \"version: 2\"."}
}

func checkNetworkV1(doc yamlDocument, top map[string]any) error {
	all, ok := top["config"].([]any)
	if !ok {
		return docError{doc.root.Line, "A network-config of version 1 lists its devices below \"config\"."}
	}
	for i, d := range all {
		device, _ := d.(map[string]any)
		kind, _ := device["type"].(string)
		if !slices.Contains(networkTypes, kind) {
			return docError{doc.root.Line, fmt.Sprintf("Device %d has no type that cloud-init knows: %s.", i+1, strings.Join(networkTypes, ", "))}
		}
	}
	return nil
}

func checkNetworkV2(doc yamlDocument, top map[string]any) error {
	for _, key := range slices.Sorted(maps.Keys(top)) {
		if !slices.Contains(networkKeys, key) {
			return docError{lineOfKey(doc, key), fmt.Sprintf("A network-config of version 2 has no %s.", shortenForError(key))}
		}
		if key == "version" || key == "renderer" {
			continue
		}
		devices, ok := top[key].(map[string]any)
		if !ok {
			return docError{lineOfKey(doc, key), fmt.Sprintf("The key %s contains devices by name.", key)}
		}
		for _, name := range slices.Sorted(maps.Keys(devices)) {
			if _, ok := devices[name].(map[string]any); !ok {
				return docError{lineOfKey(doc, key), fmt.Sprintf("The device %s has keys with their values, such as \"dhcp4: true\".", shortenForError(name))}
			}
		}
	}
	return nil
}
