// Goes through a job's life with dots-wrapper, a client for Node.js, and prints
// what it saw as JSON. Argument: the address of the pocket DigitalOcean.
import {createRequire} from 'node:module';
const require = createRequire(process.cwd() + '/');
const {createApiClient} = require('dots-wrapper');
const client = createApiClient({token: 'dop_v1_pocket', endpoint: process.argv[2] + '/v2'});
const out = {};

const image = {registry_type: 'DOCKER_HUB', registry: 'library', repository: 'busybox', tag: 'local'};
const spec = (name, run_command) => ({name, region: 'fra', jobs: [{name: 'main', kind: 'PRE_DEPLOY', image, run_command}]});
const ended = async (app_id, deployment_id) => {
	for (;;) {
		const {data: {deployment}} = await client.app.getAppDeployment({app_id, deployment_id});
		if (['ACTIVE', 'ERROR', 'CANCELED', 'SUPERSEDED'].includes(deployment.phase)) return deployment;
		await new Promise(resolve => setTimeout(resolve, 10));
	}
};
const text = async url => (await fetch(url)).text();
const refused = async call => {
	try {
		await call();
	} catch (e) {
		return {status: e.response.status, id: e.response.data.id};
	}
};

const {data: {account}} = await client.account.getAccount();
out.account = account.status;
const {data: {app}} = await client.app.createApp({spec: spec('node', 'echo hello')});
out.region = app.region.slug;
const first = await ended(app.id, app.pending_deployment.id);
out.first = {phase: first.phase, steps: first.progress.success_steps, created: Number.isFinite(Date.parse(first.created_at))};
const {data: logs} = await client.app.getAppDeploymentLogs({app_id: app.id, deployment_id: first.id, component_name: 'main', type: 'RUN', follow: false});
out.log = await text(logs.historic_urls[0]);
const {data: whole} = await client.app.getAggregatedAppDeploymentLogs({app_id: app.id, deployment_id: first.id, type: 'DEPLOY', follow: false});
out.whole = await text(whole.historic_urls[0]);

const {data: {app: updated}} = await client.app.updateApp({app_id: app.id, spec: spec('node', 'echo failing; exit 3')});
const second = await ended(app.id, updated.pending_deployment.id);
out.second = {phase: second.phase, reason: second.progress.steps[1].steps[1].steps[0].reason.code};
const {data: again} = await client.app.createAppDeployment({app_id: app.id, force_build: true});
await ended(app.id, again.deployment.id);
const {data: list} = await client.app.listAppDeployments({app_id: app.id, per_page: 2});
out.deployments = {page: list.deployments.length, total: list.meta.total, next: !!list.links.pages.next};

const {data: {app: slow}} = await client.app.createApp({spec: spec('slow', 'exec sleep 60')});
await client.app.cancelAppDeployment({app_id: slow.id, deployment_id: slow.pending_deployment.id});
out.cancelled = (await ended(slow.id, slow.pending_deployment.id)).phase;
const {data: {apps}} = await client.app.listApps({with_projects: true});
out.apps = apps.map(a => [a.spec.name, !!a.project_id]);

out.taken = await refused(() => client.app.createApp({spec: spec('slow', 'true')}));
out.invalid = await refused(() => client.app.createApp({spec: spec('No', 'true')}));
await client.app.deleteApp({app_id: app.id});
await client.app.deleteApp({app_id: slow.id});
out.gone = await refused(() => client.app.getApp({app_id: app.id}));
console.log(JSON.stringify(out));
