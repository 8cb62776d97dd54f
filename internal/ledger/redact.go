package ledger

import (
	"encoding/json"

	"github.com/windlass-run/windlass/sdk"
)

// RedactSpec returns a spec as it may be shown: the values of environment
// variables, of a workload's settings (their hashes, which a short value doesn't
// hide behind) and the contents of input files are [redacted], and so is every
// text within the options, whose sensitive members only their driver knows;
// names, references to secrets and everything else stay. The result is JSON
// for people and no longer decodes as a spec. What is not a JSON object
// becomes [redacted] as a whole; nil stays nil.
func RedactSpec(spec []byte) []byte {
	return redactObject(spec, map[string]func(json.RawMessage) json.RawMessage{
		"env": redactMembers, "files": redactFiles, "options": redactTexts,
		// The specs of rows that changed a workload's settings, or made one.
		"set": redactMembers, "deployment": redactDeployment,
	})
}

func redactDeployment(raw json.RawMessage) json.RawMessage {
	return redactObject(raw, map[string]func(json.RawMessage) json.RawMessage{
		"env": redactMembers, "config": redactMembers, "options": redactTexts,
	})
}

// RedactLaunch returns a launch as it may be shown: the request and the input
// files hold the environment's values in a form that only their driver knows,
// so all texts of the request and the files' contents are [redacted].
func RedactLaunch(launch []byte) []byte {
	return redactObject(launch, map[string]func(json.RawMessage) json.RawMessage{
		"request": redactTexts, "files": redactFiles,
	})
}

// RedactChange returns an event's change with its spec and launch redacted.
// The hash of the event is that of the change as it was.
func RedactChange(change []byte) []byte {
	whole := func(member string, redact func([]byte) []byte) func(json.RawMessage) json.RawMessage {
		return func(raw json.RawMessage) json.RawMessage {
			return redactObject(raw, map[string]func(json.RawMessage) json.RawMessage{
				member: func(r json.RawMessage) json.RawMessage { return redact(r) },
			})
		}
	}
	return redactObject(change, map[string]func(json.RawMessage) json.RawMessage{
		"requested": whole("spec", RedactSpec), "launched": whole("launch", RedactLaunch),
	})
}

func redacted() json.RawMessage { return encodeJSON(sdk.Redacted) }

// encodeJSON encodes what can't fail: texts, and maps and lists of JSON.
func encodeJSON(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage(`"` + sdk.Redacted + `"`)
	}
	return b
}

func redactObject(raw []byte, members map[string]func(json.RawMessage) json.RawMessage) []byte {
	if raw == nil {
		return nil
	}
	var obj map[string]json.RawMessage
	if err := json.Unmarshal(raw, &obj); err != nil || obj == nil {
		return redacted()
	}
	for name, redact := range members {
		if v, ok := obj[name]; ok {
			obj[name] = redact(v)
		}
	}
	return encodeJSON(obj)
}

// redactMembers keeps the names of an object's members, and null.
func redactMembers(raw json.RawMessage) json.RawMessage {
	if string(raw) == "null" {
		return raw
	}
	var obj map[string]json.RawMessage
	if err := json.Unmarshal(raw, &obj); err != nil || obj == nil {
		return redacted()
	}
	for k := range obj {
		obj[k] = redacted()
	}
	return encodeJSON(obj)
}

func redactFiles(raw json.RawMessage) json.RawMessage {
	var files []json.RawMessage
	if err := json.Unmarshal(raw, &files); err != nil {
		return redacted()
	}
	for i := range files {
		files[i] = redactObject(files[i], map[string]func(json.RawMessage) json.RawMessage{
			"data": func(json.RawMessage) json.RawMessage { return redacted() },
		})
	}
	return encodeJSON(files)
}

// redactTexts keeps the shape: objects with their members' names, the lengths
// of lists, and booleans and null. Texts and numbers are [redacted].
func redactTexts(raw json.RawMessage) json.RawMessage {
	var obj map[string]json.RawMessage
	if err := json.Unmarshal(raw, &obj); err == nil && obj != nil {
		for k, v := range obj {
			obj[k] = redactTexts(v)
		}
		return encodeJSON(obj)
	}
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err == nil && list != nil {
		for i := range list {
			list[i] = redactTexts(list[i])
		}
		return encodeJSON(list)
	}
	switch string(raw) {
	case "true", "false", "null":
		return raw
	}
	return redacted()
}
