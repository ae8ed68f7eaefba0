package config

import (
	"fmt"
	"reflect"
	"strings"
)

// Show returns the agent's settings in effect, one a line. Files with secrets are shown by their paths.
func (a Agent) Show() string {
	var out strings.Builder
	showSettings(&out, "", reflect.ValueOf(a))
	return out.String()
}

func showSettings(out *strings.Builder, prefix string, v reflect.Value) {
	for i := range v.NumField() {
		key := v.Type().Field(i).Tag.Get("koanf")
		switch {
		case key == "" || key == "-":
		case v.Field(i).Kind() == reflect.Struct:
			showSettings(out, prefix+key+".", v.Field(i))
		default:
			fmt.Fprintf(out, "%s: %v\n", prefix+key, v.Field(i))
		}
	}
}
