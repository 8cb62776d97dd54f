package config

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/windlass-run/windlass/internal/yamltree"
	"github.com/windlass-run/windlass/sdk"
)

// parse reads a setting's text. msg says what is wrong and remedy what to do;
// msg is empty when nothing is.
func (s *Setting) parse(text string) (v value, msg, remedy string) {
	v.text = text
	if s.Name == SettingActor && text != "" {
		if msg := checkActor(text); msg != "" {
			return v, msg, ""
		}
	}
	if len(s.Enum) > 0 && !slices.Contains(s.Enum, text) {
		return v, fmt.Sprintf("%q is none of %s", text, strings.Join(s.Enum, ", ")) + meant(text, s.Enum), ""
	}
	var err error
	switch s.Type {
	case TypeBool:
		if text != "true" && text != "false" {
			return v, fmt.Sprintf("%q is neither true nor false", text), ""
		}
	case TypeInt:
		if v.n, err = strconv.ParseInt(text, 10, 64); err != nil {
			return v, fmt.Sprintf("%q is no whole number", text), ""
		}
		return v, s.bounds(v.n, func(n int64) string { return strconv.FormatInt(n, 10) }), ""
	case TypeNumber:
		if v.f, err = strconv.ParseFloat(text, 64); err != nil || math.IsNaN(v.f) || math.IsInf(v.f, 0) {
			return v, fmt.Sprintf("%q is no number", text), ""
		}
		if s.Max > 0 && (v.f < float64(s.Min) || v.f > float64(s.Max)) {
			return v, fmt.Sprintf("%s is outside %d to %d", text, s.Min, s.Max), ""
		}
	case TypeDuration:
		d, err := ParseDuration(text)
		if err != nil {
			return fromQuantity(v, err)
		}
		v.n = int64(d)
		return v, s.bounds(v.n, func(n int64) string { return FormatDuration(time.Duration(n)) }), ""
	case TypeSize:
		if v.n, err = ParseMemoryQuantity(text); err != nil {
			return fromQuantity(v, err)
		}
		return v, s.bounds(v.n, formatSize), ""
	}
	return v, "", ""
}

func fromQuantity(v value, err error) (value, string, string) {
	var e *sdk.Error
	if errors.As(err, &e) && e.Err != nil {
		return v, e.Err.Error(), e.Remedy
	}
	return v, err.Error(), ""
}

func (s *Setting) bounds(n int64, show func(int64) string) string {
	if s.Max > 0 && (n < s.Min || n > s.Max) {
		return fmt.Sprintf("%s is outside %s to %s", show(n), show(s.Min), show(s.Max))
	}
	return ""
}

// formatSize writes bytes as ParseMemoryQuantity reads them.
func formatSize(n int64) string {
	units := "KMGTPE"
	for i := len(units) - 1; i >= 0; i-- {
		if shift := 10 * uint(i+1); n >= 1<<shift && n%(1<<shift) == 0 {
			return fmt.Sprintf("%d%ci", n>>shift, units[i])
		}
	}
	return strconv.FormatInt(n, 10)
}

// checkNode returns what is wrong with a value of a file.
func (s *Setting) checkNode(n *yamltree.Node) (msg, remedy string) {
	want := map[Type][]yamltree.Kind{
		TypeText: {yamltree.Text}, TypeBool: {yamltree.Bool}, TypeInt: {yamltree.Int}, TypeNumber: {yamltree.Int, yamltree.Float},
		TypeDuration: {yamltree.Text}, TypeSize: {yamltree.Text, yamltree.Int}, TypeList: {yamltree.List}, TypeMap: {yamltree.Map},
	}[s.Type]
	if !slices.Contains(want, n.Kind) {
		msg := fmt.Sprintf("wants %s, has %s", s.Type.words(), n.Kind)
		key := s.Name[strings.LastIndexByte(s.Name, '.')+1:]
		switch {
		case s.Type == TypeList:
			return msg, "write " + key + ": [A, B], or remove the key"
		case s.Type == TypeMap:
			return msg, "write " + key + ": {KEY: VALUE}, or remove the key"
		case n.Kind == yamltree.Null:
			return msg, "give it a value or remove the key"
		case s.Type == TypeText && n.Kind != yamltree.List && n.Kind != yamltree.Map:
			return msg, "put it in quotes"
		case s.Type == TypeDuration && (n.Kind == yamltree.Int || n.Kind == yamltree.Float):
			return msg, "add a unit, such as " + n.Text + "s"
		}
		return msg, ""
	}
	switch s.Type {
	case TypeMap:
		return "", ""
	case TypeList:
		for i, item := range n.Items {
			if item.Kind != yamltree.Text {
				return fmt.Sprintf("wants texts, item %d is %s", i+1, item.Kind), ""
			}
		}
		return "", ""
	}
	_, msg, remedy = s.parse(n.Text)
	return msg, remedy
}

func (t Type) words() string {
	switch t {
	case TypeBool:
		return "true or false"
	case TypeInt:
		return "a whole number"
	case TypeNumber:
		return "a number"
	case TypeDuration:
		return "a duration such as 90s"
	case TypeSize:
		return "a size such as 512Mi"
	case TypeList:
		return "a list"
	case TypeMap:
		return "a mapping"
	}
	return "text"
}
