package config

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"
)

// settingsSource holds a command's settings, the settings of the other command, and the command's default file.
type settingsSource struct {
	settings, others []setting
	file             string
}

// settingValues are settings by key, as one layer for koanf.
type settingValues map[string]any

// Read implements koanf.Provider: it expands the keys into nested maps.
func (v settingValues) Read() (map[string]any, error) {
	nested := map[string]any{}
	for key, value := range v {
		section, name, deep := strings.Cut(key, ".")
		if !deep {
			nested[key] = value
			continue
		}
		inner, ok := nested[section].(map[string]any)
		if !ok {
			inner = map[string]any{}
			nested[section] = inner
		}
		inner[name] = value
	}
	return nested, nil
}

// ReadBytes returns an error, because values need no parser.
func (v settingValues) ReadBytes() ([]byte, error) {
	return nil, errors.New("settings are already parsed")
}

// settingOrigins holds, for each setting, the place of its effective value: "--listen", "QUANTIX_LISTEN",
// "portal.yaml:3: listen".
type settingOrigins map[string]string

func (o settingOrigins) nameOf(key string) string {
	if name, ok := o[key]; ok {
		return name
	}
	return key
}

// loadSettings fills target from the defaults, the file, the environment and the flags. A later source overrides an
// earlier one.
func loadSettings(target any, from settingsSource, flags *pflag.FlagSet, env []string, file string) (settingOrigins, error) {
	given := settingOrigins{}
	defaults := settingValues{}
	for _, s := range from.settings {
		defaults[s.key] = s.value
	}
	fromFile, fileErr := readFile(from, chosenFile(flags, file), given)
	fromEnv, envErr := readEnv(from, env, given)
	if err := errors.Join(fileErr, envErr); err != nil {
		return nil, err
	}
	fromFlags, err := readFlags(from, flags, given)
	if err != nil {
		return nil, err
	}
	k := koanf.New(".")
	for _, layer := range []settingValues{defaults, fromFile, fromEnv, fromFlags} {
		if err := k.Load(layer, nil); err != nil {
			return nil, fmt.Errorf("read the settings: %w", err)
		}
	}
	if err := k.Unmarshal("", target); err != nil {
		return nil, fmt.Errorf("read the settings: %w", err)
	}
	return given, nil
}

func chosenFile(flags *pflag.FlagSet, file string) string {
	if file == "" && flags != nil {
		if flag := flags.Lookup("config"); flag != nil {
			return flag.Value.String()
		}
	}
	return file
}

func readFile(from settingsSource, file string, given settingOrigins) (settingValues, error) {
	optional := file == ""
	if optional {
		file = from.file
	}
	text, err := os.ReadFile(file)
	if optional && errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the settings: %w", err)
	}
	return parseYAML(from, file, text, given)
}

// readEnv reads every QUANTIX_* variable. A variable that no command uses is an error, so that typing mistakes are
// detected. QUANTIX_TEST_* is reserved for tests.
func readEnv(from settingsSource, env []string, given settingOrigins) (settingValues, error) {
	found := settingValues{}
	var wrong []error
	for _, entry := range env {
		name, text, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, envPrefix) || strings.HasPrefix(name, envPrefix+"TEST_") {
			continue
		}
		s, ok := findSetting(from.settings, name, setting.envName)
		if !ok {
			if _, ok := findSetting(from.others, name, setting.envName); !ok {
				wrong = append(wrong, fmt.Errorf("%s: there is no such setting%s; unset the variable or correct its name",
					name, didYouMean(name, settingNames(from.settings, setting.envName))))
			}
			continue
		}
		value, err := s.parse(text)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", name, err))
			continue
		}
		found[s.key], given[s.key] = value, name
	}
	return found, errors.Join(wrong...)
}

func readFlags(from settingsSource, flags *pflag.FlagSet, given settingOrigins) (settingValues, error) {
	found := settingValues{}
	if flags == nil {
		return found, nil
	}
	var wrong []error
	flags.Visit(func(flag *pflag.Flag) {
		s, ok := findSetting(from.settings, flag.Name, setting.flagName)
		if !ok {
			return
		}
		var value any
		var err error
		switch s.value.(type) {
		case int:
			value, err = flags.GetInt(flag.Name)
		case bool:
			value, err = flags.GetBool(flag.Name)
		case []string, keyValues:
			value, err = flags.GetStringSlice(flag.Name)
		default:
			value, err = flags.GetString(flag.Name)
		}
		if err != nil {
			wrong = append(wrong, err)
			return
		}
		found[s.key], given[s.key] = value, "--"+flag.Name
	})
	return found, errors.Join(wrong...)
}

func settingNames(settings []setting, spelling func(setting) string) []string {
	names := make([]string, 0, len(settings))
	for _, s := range settings {
		names = append(names, spelling(s))
	}
	slices.Sort(names)
	return names
}
